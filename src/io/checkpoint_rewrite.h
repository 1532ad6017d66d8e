// A checkpoint written anew by another number of writers, without a run: the same step, header and values, bit for bit.
#pragma once
#include <string>

#include "src/io/checkpoint_reader.h"

namespace ogrom {

struct RewriteReport {
    i64 step = 0;
    i64 groups = 0, elements = 0;  // of all groups together
    i64 files = 0, bytes = 0;      // parts and master
};

// Most host memory of a rewrite beside the master's image and the lists of pieces (checkpoint_staging_bytes), whatever
// the size of the checkpoint: a piece of the source and one of the copy while they are compared.
inline constexpr i64 rewrite_piece_bytes = i64{32} << 20;

// Makes the step folder `out` with `writers` parts of even size from `checkpoint` (as for read_header). What was
// written is read back and compared bit for bit, and its weight hash with the header's, before it gets its name.
// Error(usage): a name that is taken, or that is of another step. Error(checkpoint): a damaged source, a full disk;
// nothing is left then.
RewriteReport rewrite_checkpoint(const std::string& checkpoint, const std::string& out, int writers, Kept kept);

// The same from any source, whose header holds its weight hash.
RewriteReport write_checkpoint(const StateSource& source, const std::string& out, int writers, Kept kept);

// Of the weights of a source, as a header holds it.
u64 hash_weights(const StateSource& source);

}  // namespace ogrom
