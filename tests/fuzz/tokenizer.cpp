// tokenizer.json, and text through what it describes: decode(encode(x)) = x where it has an id for every byte.
#include "src/data/tokenizer.h"

#include <cstdlib>

#include "tests/fuzz/support.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace ogrom;
    const std::string path = fuzz::put_file("tokenizer.json", fuzz::text_of(data, size));
    fuzz::accept([&] {
        const Tokenizer tokenizer = Tokenizer::load(path);
        (void)tokenizer.report();
        const std::string text = "low lower\n  it's 12 \xc3\xa9\xff<|endoftext|>ab";
        for (const Specials specials : {Specials::as_text, Specials::parse}) {
            if (tokenizer.decode(tokenizer.encode(text, specials)) != text) {
                std::abort();
            }
        }
    });
    return 0;
}
