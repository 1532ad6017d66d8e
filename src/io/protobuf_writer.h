// The wire format of protocol buffers, written: as much of it as an ONNX model needs. A message is a string of fields,
// each a key (field number, wire type) and a value; an inner message is a field of bytes. A field that is repeated is
// written once for each value.
#pragma once
#include <bit>
#include <string>
#include <string_view>

#include "kernels/common/extents.h"

namespace ogrom {

class ProtobufWriter {
public:
    // int64, int32, bool and enumerations; a negative value takes ten bytes, as the format says.
    void integer(int field, i64 value) {
        key(field, 0);
        varint(static_cast<u64>(value));
    }
    void real(int field, float value) {
        key(field, 5);
        const u32 bits = std::bit_cast<u32>(value);
        for (int shift = 0; shift < 32; shift += 8) {
            text_ += static_cast<char>(bits >> shift & 0xff);
        }
    }
    // string, bytes
    void bytes(int field, std::string_view value) {
        key(field, 2);
        varint(value.size());
        text_ += value;
    }
    void message(int field, const ProtobufWriter& inner) { bytes(field, inner.text_); }

    [[nodiscard]] const std::string& text() const { return text_; }

private:
    void key(int field, unsigned wire_type) { varint(static_cast<u64>(field) << 3 | wire_type); }
    // Seven bits a byte, the lowest first; the top bit says that more follow.
    void varint(u64 value) {
        for (; value >= 0x80; value >>= 7) {
            text_ += static_cast<char>((value & 0x7f) | 0x80);
        }
        text_ += static_cast<char>(value);
    }
    std::string text_;
};

}  // namespace ogrom
