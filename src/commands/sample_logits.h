// ogrom sample --ids ... --logits FILE: what the model says after given tokens, for comparisons with other programs.
#pragma once
#include <string>

namespace ogrom {

// Writes to `file` the logits after each of `ids` ("464,3290,318"): little-endian fp32 [number of ids, vocab], row i
// those of the token after ids[0..i]; the true vocabulary. Complete or not at all. Returns the exit code.
int write_logits(const std::string& checkpoint, const std::string& ids, const std::string& file);

}  // namespace ogrom
