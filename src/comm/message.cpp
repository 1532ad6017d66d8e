#include "src/comm/message.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

namespace ogrom {
namespace {

struct Header {
    i64 sequence, count, type;
    char label[104];
};

Header header_of(const MessagePlace& place) {
    Header header{place.sequence, place.count, static_cast<i64>(place.type), {}};
    std::memcpy(header.label, place.label.data(), std::min(place.label.size(), sizeof(header.label) - 1));
    return header;
}

class SendOperation final : public Operation {
public:
    SendOperation(const MessagePlace& place, const void* data) : header_(header_of(place)) {
        OGROM_MPI(MPI_Isend(&header_, sizeof(Header), MPI_BYTE, place.peer, place.tag, place.comm, requests_.add()));
        in_pieces(place.count, 1, place.chunk_bytes / size_of(place.type), [&](const Piece& piece) {
            OGROM_MPI(MPI_Isend(static_cast<const char*>(data) + piece.first * size_of(place.type),
                                static_cast<int>(piece.count), mpi_type(place.type), place.peer, place.tag + 1,
                                place.comm, requests_.add()));
        });
    }
    bool advance() override { return requests_.test(); }
    [[nodiscard]] long completed() const override { return requests_.completed(); }

private:
    Header header_;
    RequestList requests_;
};

class ReceiveOperation final : public Operation {
public:
    ReceiveOperation(const MessagePlace& place, void* data)
        : place_(place), axis_(place.axis), expected_(header_of(place)), data_(static_cast<char*>(data)) {
        OGROM_MPI(MPI_Irecv(&found_, sizeof(Header), MPI_BYTE, place.peer, place.tag, place.comm, requests_.add()));
    }
    bool advance() override {
        if (!requests_.test()) {
            return false;
        }
        if (!taking_) {
            check_header();
            taking_ = true;
            take();
            return requests_.test();
        }
        return true;
    }
    [[nodiscard]] long completed() const override { return requests_.completed(); }

private:
    void check_header() const {
        const bool counts = found_.count == expected_.count || fault_active("message_count_unchecked");
        const bool labels =
            place_.labels == LabelCheck::off || std::strncmp(found_.label, expected_.label, sizeof(found_.label)) == 0;
        if (found_.sequence == expected_.sequence && found_.type == expected_.type && counts && labels) {
            return;
        }
        fail(ExitCode::peer,
             fmt::format("messages differ on {}: rank {} of it receives #{} '{}' from rank {}: {} {}, but rank {} sent "
                         "#{} '{}': {} {}",
                         axis_, place_.rank, expected_.sequence, expected_.label, place_.peer, expected_.count,
                         name_of(static_cast<Dtype>(expected_.type)), place_.peer, found_.sequence, found_.label,
                         found_.count, name_of(static_cast<Dtype>(found_.type))));
    }
    void take() {
        in_pieces(place_.count, 1, place_.chunk_bytes / size_of(place_.type), [&](const Piece& piece) {
            OGROM_MPI(MPI_Irecv(data_ + piece.first * size_of(place_.type), static_cast<int>(piece.count),
                                mpi_type(place_.type), place_.peer, place_.tag + 1, place_.comm, requests_.add()));
        });
    }

    MessagePlace place_;
    std::string axis_;
    Header expected_, found_{};
    char* data_;
    RequestList requests_;
    bool taking_ = false;
};

}  // namespace

std::unique_ptr<Operation> send_message(const MessagePlace& place, const void* data) {
    return std::make_unique<SendOperation>(place, data);
}

std::unique_ptr<Operation> receive_message(const MessagePlace& place, void* data) {
    return std::make_unique<ReceiveOperation>(place, data);
}

}  // namespace ogrom
