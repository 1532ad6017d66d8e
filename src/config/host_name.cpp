// In: a word of a hostfile or node list. Out: whether it can name a host. Next: config/hosts.cpp.
#include "src/config/host_name.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cctype>
#include <fmt/format.h>

#include "src/base/text.h"

namespace ogrom {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_name_letter(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_ipv6(const std::string& name, in6_addr& address) {
    return inet_pton(AF_INET6, name.c_str(), &address) == 1;
}

// node1:8 is the form of mpirun --host, not of a hostfile.
std::string wrong_colon(std::string_view name) {
    const std::string host(name.substr(0, name.find(':')));
    const std::string rest(name.substr(name.find(':') + 1));
    const bool count = !rest.empty() && std::all_of(rest.begin(), rest.end(), is_digit);
    return count ? fmt::format("{} is the form of --host; would be right: {} slots={}", quote(name), host, rest)
                 : fmt::format("{} is neither a host name nor an IPv6 address", quote(name));
}

}  // namespace

std::string wrong_host_name(std::string_view name) {
    constexpr std::size_t longest_name = 253, longest_label = 63;
    if (name.empty()) {
        return "no host name";
    }
    const std::string text(name);
    in6_addr six{};
    if (is_ipv6(text, six)) {
        return {};
    }
    if (name.find(':') != std::string_view::npos) {
        return wrong_colon(name);
    }
    std::string_view bare = name;
    if (bare.ends_with('.')) {
        bare.remove_suffix(1);
    }
    if (bare.size() > longest_name) {
        return fmt::format("a host name of {} letters; {} at most", bare.size(), longest_name);
    }
    const bool numeric = std::all_of(bare.begin(), bare.end(), [](char c) { return is_digit(c) || c == '.'; });
    if (in_addr four{}; numeric && bare.find('.') != std::string_view::npos &&
                        inet_pton(AF_INET, std::string(bare).c_str(), &four) != 1) {
        return fmt::format("{} is no IPv4 address", quote(name));
    }
    for (const std::string& label : split(bare, '.')) {
        const bool letters =
            std::all_of(label.begin(), label.end(), [](char c) { return is_name_letter(c) || c == '-' || c == '_'; });
        if (label.empty() || !letters || label.size() > longest_label || label.front() == '-' || label.back() == '-') {
            return fmt::format("{} is no host name (letters, digits, - and _ between dots)", quote(name));
        }
    }
    return {};
}

std::string wrong_user_name(std::string_view name) {
    const bool letters = std::all_of(name.begin(), name.end(),
                                     [](char c) { return is_name_letter(c) || c == '-' || c == '_' || c == '.'; });
    return name.empty() || name.front() == '-' || !letters
               ? fmt::format("{} is no user name; would be right: ada@node1", quote(name))
               : std::string();
}

std::string same_host_key(std::string_view name) {
    in6_addr six{};
    if (is_ipv6(std::string(name), six)) {
        std::array<char, INET6_ADDRSTRLEN> text{};
        inet_ntop(AF_INET6, &six, text.data(), text.size());
        return text.data();
    }
    std::string key(name);
    std::transform(key.begin(), key.end(), key.begin(),
                   [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
    if (key.ends_with('.')) {
        key.pop_back();
    }
    return key;
}

}  // namespace ogrom
