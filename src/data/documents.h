// The documents of a corpus, one after the other: text files, folders of them, JSON Lines. Files are mapped, so memory
// is bounded by the longest document. Texts are kept byte for byte (blanks at their ends and CR LF included); only a
// byte order mark at the start of a file is dropped. UTF-16 is refused.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/common/extents.h"

#include "src/data/jsonl.h"
#include "src/data/mapped_file.h"

namespace ogrom {

enum class SplitBy {
    file,         // one document per file
    blank_lines,  // one or more lines without anything but blanks
    form_feed,    // the character U+000C
    line          // a line equal to `separator` (a CR at its end does not count)
};
enum class InputFormat { automatic, text, jsonl };  // automatic: by the name, .jsonl and .ndjson are JSON Lines

struct DocumentOptions {
    SplitBy split = SplitBy::file;
    std::string separator;
    InputFormat format = InputFormat::automatic;
    std::string member = "text";  // of a JSON Lines object
    InvalidText on_invalid = InvalidText::error;
};

struct InputFile {
    std::string path;
    InputFormat format = InputFormat::text;  // text | jsonl
    i64 bytes = 0;
};
// Folders are walked in sorted order, links are followed; names that start with '.' inside them are left out. A file
// under several names (links of either kind, or given twice) is read once, else its text would count twice; `again`
// gets the number of further names. Throws Error(data) with the path for what is not there (a dangling link too), for
// pipes, sockets and devices, and for a link to a folder that holds it.
std::vector<InputFile> list_inputs(const std::vector<std::string>& paths, InputFormat format, i64* again = nullptr);
// Error(usage) when a file to be written is one of those to be read: the user's text would be lost.
void refuse_output_over_input(const std::vector<InputFile>& files, const std::vector<std::string>& outputs);

class DocumentReader {
public:
    DocumentReader(std::vector<InputFile> files, DocumentOptions options);
    // False at the end. A document may be empty. Throws Error(data) with file:line and byte.
    bool next(std::string& text);
    [[nodiscard]] i64 bytes_read() const { return passed_bytes_ + at_; }
    [[nodiscard]] i64 replaced() const { return replaced_; }
    [[nodiscard]] i64 skipped() const { return skipped_; }
    // The first few of the skipped ones, with file, line and byte.
    [[nodiscard]] const std::vector<std::string>& skip_messages() const { return skip_messages_; }

private:
    bool open_next();
    std::string_view text_piece();
    std::string_view line_piece();
    bool take_text(std::string& text);
    bool take_jsonl(std::string& text);
    void skip_or_fail(i64 byte, const std::string& what, const std::string& remedy);
    [[nodiscard]] bool separates(std::string_view line) const;

    std::vector<InputFile> files_;
    DocumentOptions options_;
    std::size_t next_file_ = 0;
    bool open_ = false;
    InputFile current_;
    MappedFile file_;
    i64 at_ = 0;  // byte of the current file
    i64 passed_bytes_ = 0, replaced_ = 0, skipped_ = 0;
    std::vector<std::string> skip_messages_;
};

}  // namespace ogrom
