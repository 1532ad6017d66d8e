#include "src/comm/message.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

namespace ogrom {

MessageHeader message_header(i64 sequence, i64 count, Dtype type, std::string_view label) {
    MessageHeader header{sequence, count, static_cast<i64>(type), {}};
    std::memcpy(header.label, label.data(), std::min(label.size(), sizeof(header.label) - 1));
    return header;
}

void check_header(const MessageHeader& found, const MessageHeader& expected, std::string_view axis, int rank, int peer,
                  LabelCheck labels) {
    const bool counts = found.count == expected.count || fault_active("message_count_unchecked");
    const bool same_label =
        labels == LabelCheck::off || std::strncmp(found.label, expected.label, sizeof(found.label)) == 0;
    if (found.sequence == expected.sequence && found.type == expected.type && counts && same_label) {
        return;
    }
    fail(ExitCode::peer,
         fmt::format("messages differ on {}: rank {} of it receives #{} '{}' from rank {}: {} {}, but rank {} sent "
                     "#{} '{}': {} {}",
                     axis, rank, expected.sequence, expected.label, peer, expected.count,
                     name_of(static_cast<Dtype>(expected.type)), peer, found.sequence, found.label, found.count,
                     name_of(static_cast<Dtype>(found.type))));
}

namespace {

MessageHeader header_of(const MessagePlace& place) {
    return message_header(place.sequence, place.count, place.type, place.label);
}

class SendOperation final : public Operation {
public:
    SendOperation(const MessagePlace& place, const void* data) : header_(header_of(place)) {
        OGROM_MPI(
            MPI_Isend(&header_, sizeof(MessageHeader), MPI_BYTE, place.peer, place.tag, place.comm, requests_.add()));
        in_pieces(place.count, 1, place.chunk_bytes / size_of(place.type), [&](const Piece& piece) {
            OGROM_MPI(MPI_Isend(static_cast<const char*>(data) + piece.first * size_of(place.type),
                                static_cast<int>(piece.count), mpi_type(place.type), place.peer, place.tag + 1,
                                place.comm, requests_.add()));
        });
    }
    bool advance() override { return requests_.test(); }
    [[nodiscard]] long completed() const override { return requests_.completed(); }

private:
    MessageHeader header_;
    RequestList requests_;
};

class ReceiveOperation final : public Operation {
public:
    ReceiveOperation(const MessagePlace& place, void* data)
        : place_(place), axis_(place.axis), expected_(header_of(place)), data_(static_cast<char*>(data)) {
        OGROM_MPI(
            MPI_Irecv(&found_, sizeof(MessageHeader), MPI_BYTE, place.peer, place.tag, place.comm, requests_.add()));
    }
    bool advance() override {
        if (!requests_.test()) {
            return false;
        }
        if (!taking_) {
            check_header(found_, expected_, axis_, place_.rank, place_.peer, place_.labels);
            taking_ = true;
            take();
            return requests_.test();
        }
        return true;
    }
    [[nodiscard]] long completed() const override { return requests_.completed(); }

private:
    void take() {
        in_pieces(place_.count, 1, place_.chunk_bytes / size_of(place_.type), [&](const Piece& piece) {
            OGROM_MPI(MPI_Irecv(data_ + piece.first * size_of(place_.type), static_cast<int>(piece.count),
                                mpi_type(place_.type), place_.peer, place_.tag + 1, place_.comm, requests_.add()));
        });
    }

    MessagePlace place_;
    std::string axis_;
    MessageHeader expected_, found_{};
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
