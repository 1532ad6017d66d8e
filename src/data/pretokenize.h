// GPT-2's cut of a text into words (Radford et al. 2019, encoder.py), written out by hand:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// The words follow one another without a gap, so together they are the text. A byte that is not valid UTF-8 counts as
// a character that is neither letter, number nor blank (as the U+FFFD that other programs put in its place).
#pragma once

namespace ogrom {

// End of the word that starts at `at`; at < end, at stands at the start of the text or where a word ended.
const char* word_end(const char* at, const char* end);

}  // namespace ogrom
