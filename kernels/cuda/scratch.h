// Working memory of the CUDA kernels: one range per (device, stream), shared by all operations of that stream, which
// run one after another. It grows to the largest request and is kept; growing is ordered on the stream and waits for
// nothing. A captured graph holds its address: run the step once before it is captured.
#pragma once
#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom::cuda {

// At least `bytes`, aligned to 256; contents last until the next operation on the stream. Throws (memory).
void* scratch(Stream stream, i64 bytes);

// Gives the range of a stream back; call it before the stream is destroyed.
void release_scratch(Stream stream);

// Where the range of a stream begins, null before the first request: it changes when the range grows.
const void* scratch_start(Stream stream);

// Bytes held now over all streams of this process.
i64 scratch_bytes();

}  // namespace ogrom::cuda
