#include "src/data/documents.h"

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <map>
#include <sys/stat.h>

#include "kernels/common/error.h"

#include "src/base/file.h"
#include "src/data/unicode.h"

namespace ogrom {

namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
constexpr std::size_t told_skips = 10;

InputFormat format_of(const std::string& path, InputFormat wanted) {
    if (wanted != InputFormat::automatic) {
        return wanted;
    }
    return path.ends_with(".jsonl") || path.ends_with(".ndjson") ? InputFormat::jsonl : InputFormat::text;
}

// `above`: the folders that hold `path`, by their one true name, so that a link to one of them is noticed.
void walk(const std::string& path, InputFormat format, std::vector<InputFile>& files, std::vector<std::string>& above) {
    require(file_exists(path), ExitCode::data,
            path +
                ": a link to something that does not exist (or may not be looked at); mend or remove it, or give the "
                "files by name "
                "(--input folder/*.txt)");
    require(!is_special(path), ExitCode::data,
            path + ": a pipe, socket or device; texts are regular files: write it to a file first, or leave it out");
    if (!is_directory(path)) {
        files.push_back({path, format_of(path, format), file_size(path, ExitCode::data)});
        return;
    }
    const std::string canonical = std::filesystem::canonical(path).string();
    require(std::find(above.begin(), above.end(), canonical) == above.end(), ExitCode::data,
            path + ": a link to a folder that holds it, so that its texts would be read again and again; remove it");
    above.push_back(canonical);
    for (const auto& name : list_directory(path, ExitCode::data)) {
        if (!name.starts_with('.')) {
            walk(join_path(path, name), format, files, above);
        }
    }
    above.pop_back();
}

// Leaves one name of each file, one that is no link before links, and counts the others.
i64 keep_one_name(std::vector<InputFile>& files) {
    std::map<std::pair<dev_t, ino_t>, std::size_t> places;
    std::vector<InputFile> kept;
    for (InputFile& file : files) {
        struct stat status {};
        require(::stat(file.path.c_str(), &status) == 0, ExitCode::data, file.path + ": cannot be looked at");
        const auto [found, first] = places.try_emplace({status.st_dev, status.st_ino}, kept.size());
        if (first) {
            kept.push_back(std::move(file));
        } else if (std::filesystem::is_symlink(kept[found->second].path) && !std::filesystem::is_symlink(file.path)) {
            kept[found->second] = std::move(file);
        }
    }
    const i64 others = static_cast<i64>(files.size() - kept.size());
    files = std::move(kept);
    return others;
}

// A byte order mark, or two ASCII characters with a zero byte beside each.
bool looks_like_utf16(std::string_view text) {
    if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
        return true;
    }
    if (text.size() < 4) {
        return false;
    }
    const auto zero = [&](std::size_t i) { return text[i] == '\0'; };
    return zero(0) == zero(2) && zero(1) == zero(3) && zero(0) != zero(1);
}

bool is_blank(std::string_view line) {
    return line.find_first_not_of(" \t\r\v") == std::string_view::npos;
}

std::string_view without_cr(std::string_view line) {
    if (line.ends_with('\r')) {
        line.remove_suffix(1);
    }
    return line;
}

}  // namespace

std::vector<InputFile> list_inputs(const std::vector<std::string>& paths, InputFormat format, i64* again) {
    std::vector<InputFile> files;
    for (const auto& path : paths) {
        require(file_exists(path), ExitCode::data, path + ": no such file or folder");
        const std::size_t before = files.size();
        std::vector<std::string> above;
        walk(path, format, files, above);
        require(files.size() > before, ExitCode::data, path + ": the folder holds no file");
    }
    const i64 others = keep_one_name(files);
    if (again != nullptr) {
        *again = others;
    }
    return files;
}

void refuse_output_over_input(const std::vector<InputFile>& files, const std::vector<std::string>& outputs) {
    for (const auto& output : outputs) {
        if (!file_exists(output)) {
            continue;
        }
        for (const auto& file : files) {
            std::error_code absent;
            require(!std::filesystem::equivalent(file.path, output, absent), ExitCode::usage,
                    fmt::format("{} would be overwritten while it is an input; give another --out", file.path));
        }
    }
}

DocumentReader::DocumentReader(std::vector<InputFile> files, DocumentOptions options)
    : files_(std::move(files)), options_(std::move(options)) {}

bool DocumentReader::open_next() {
    if (open_) {
        passed_bytes_ += file_.size();
        at_ = 0;
        open_ = false;
    }
    if (next_file_ == files_.size()) {
        return false;
    }
    current_ = files_[next_file_++];
    file_ = MappedFile(current_.path, MappedFile::Access::sequential);
    open_ = true;
    require(!looks_like_utf16(file_.view()), ExitCode::data,
            current_.path +
                ": UTF-16 text, or no text at all; convert it first (iconv -f UTF-16 -t UTF-8), or leave "
                "it out");
    at_ = file_.view().starts_with(byte_order_mark) ? static_cast<i64>(byte_order_mark.size()) : 0;
    return true;
}

bool DocumentReader::next(std::string& text) {
    while (true) {
        if (!open_ || at_ >= file_.size()) {
            // An empty file (or one of a byte order mark only) is an empty document.
            if (!open_next()) {
                return false;
            }
            if (at_ >= file_.size() && current_.format == InputFormat::text) {
                text.clear();
                return true;
            }
            continue;
        }
        if (current_.format == InputFormat::jsonl ? take_jsonl(text) : take_text(text)) {
            return true;
        }
    }
}

bool DocumentReader::separates(std::string_view line) const {
    return options_.split == SplitBy::blank_lines ? is_blank(line) : without_cr(line) == options_.separator;
}

std::string_view DocumentReader::line_piece() {
    const std::string_view rest = file_.view().substr(static_cast<std::size_t>(at_));
    const std::size_t end = rest.find('\n');
    at_ += static_cast<i64>(std::min(end == std::string_view::npos ? rest.size() : end + 1, rest.size()));
    return rest.substr(0, end);
}

// The bytes up to the next separator, which is passed over.
std::string_view DocumentReader::text_piece() {
    const std::string_view rest = file_.view().substr(static_cast<std::size_t>(at_));
    if (options_.split == SplitBy::file || options_.split == SplitBy::form_feed) {
        const std::size_t end = options_.split == SplitBy::file ? std::string_view::npos : rest.find('\f');
        at_ += static_cast<i64>(end == std::string_view::npos ? rest.size() : end + 1);
        return rest.substr(0, end);
    }
    const i64 first = at_;
    while (at_ < file_.size()) {
        const i64 start = at_;
        if (separates(line_piece())) {
            return rest.substr(0, static_cast<std::size_t>(start - first));
        }
    }
    return rest;
}

bool DocumentReader::take_text(std::string& text) {
    const i64 first = at_;
    const std::string_view piece = text_piece();
    text.clear();
    const i64 bad = first_invalid_utf8(piece);
    if (bad < 0) {
        text.assign(piece);
        // Several blank lines are one separator; elsewhere nothing between two separators is an empty document.
        return options_.split != SplitBy::blank_lines || !piece.empty();
    }
    if (options_.on_invalid == InvalidText::replace) {
        replaced_ += replace_invalid_utf8(piece, text);
        return true;
    }
    skip_or_fail(first + bad, fmt::format("invalid UTF-8 (0x{:02X})", static_cast<unsigned char>(piece[bad])),
                 "convert the file, or use --on-invalid replace or skip");
    return false;
}

bool DocumentReader::take_jsonl(std::string& text) {
    const i64 first = at_;
    const std::string_view line = without_cr(line_piece());
    if (is_blank(line)) {
        return false;
    }
    const JsonlLine result = read_jsonl_line(line, options_.member, options_.on_invalid, text);
    replaced_ += result.replaced;
    if (result.fault.empty()) {
        return true;
    }
    skip_or_fail(first + result.at, result.fault, "mend the line, or use --on-invalid skip");
    return false;
}

void DocumentReader::skip_or_fail(i64 byte, const std::string& what, const std::string& remedy) {
    const std::string_view before = file_.view().substr(0, static_cast<std::size_t>(std::min(byte, file_.size())));
    const auto line_number = [&] { return 1 + std::count(before.begin(), before.end(), '\n'); };
    const bool skips = options_.on_invalid == InvalidText::skip;
    if (!skips || skip_messages_.size() < told_skips) {
        const std::string place = fmt::format("{}:{}: byte {}: {}", current_.path, line_number(), byte, what);
        if (!skips) {
            fail(ExitCode::data, place + "; " + remedy);
        }
        skip_messages_.push_back(place);
    }
    ++skipped_;
}

}  // namespace ogrom
