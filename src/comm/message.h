// A message between two ranks over MPI. A header travels in front of the data: the k-th send of a pair must meet its
// k-th receive with the same type and count. The receiver takes the data only after that was checked, so that a
// disagreement is an error that names both ends instead of a truncated buffer or a hang.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "src/comm/operation.h"

namespace ogrom {

enum class LabelCheck { off, compare };

struct MessagePlace {
    MPI_Comm comm = MPI_COMM_NULL;
    std::string_view axis;
    int rank = 0, peer = 0;
    int tag = 0;       // tag and tag + 1 belong to this message alone
    i64 sequence = 0;  // number of the message of this pair and direction, from 1
    i64 chunk_bytes = 0;
    Dtype type = Dtype::fp32;
    i64 count = 0;
    std::string_view label;
    LabelCheck labels = LabelCheck::off;
};

// What both ends of a message must agree on.
struct MessageHeader {
    i64 sequence, count, type;
    char label[104];
};
MessageHeader message_header(i64 sequence, i64 count, Dtype type, std::string_view label);
// Throws Error(peer) that names both ends; `rank` of `axis` receives from `peer`.
void check_header(const MessageHeader& found, const MessageHeader& expected, std::string_view axis, int rank, int peer,
                  LabelCheck labels);

std::unique_ptr<Operation> send_message(const MessagePlace& place, const void* data);
// advance() throws Error(peer) when the sender's header says otherwise, at every call from then on.
std::unique_ptr<Operation> receive_message(const MessagePlace& place, void* data);

}  // namespace ogrom
