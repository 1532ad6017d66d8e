// The weight hash (kernels/common/hash.h) of elements that stand in a row here and in rows of a logical tensor there.
//   sum over i in [first, last) of hash_element(key, index(i), bits of float(x[i]))   mod 2^64
//   index(i) = (row0 + i / columns) * whole_columns + col0 + i % columns
// Any order of the sum gives the same value. Reads each element once; about 12 integer operations for each.
#pragma once
#include <span>

#include "kernels/common/extents.h"
#include "kernels/common/hash.h"
#include "kernels/common/host_device.h"
#include "kernels/common/stream.h"

namespace ogrom::ops {

template <class T>
struct HashRun {
    const T* x;  // element 0, which need not be there
    i64 first, last;
    u64 key;  // hash_tensor of the tensor's id
    i64 columns, whole_columns, row0, col0;

    [[nodiscard]] OGROM_HOST_DEVICE u64 index(i64 i) const {
        const bool whole = columns == whole_columns;  // no division for each element
        return static_cast<u64>(whole ? row0 * columns + i : (row0 + i / columns) * whole_columns + col0 + i % columns);
    }
};

// Sum over the runs; returned on the host, so it waits for the stream.
template <class T>
u64 weight_hash(Stream stream, std::span<const HashRun<T>> runs);

}  // namespace ogrom::ops
