// A hostfile or a node list: the first byte says which, the rest is its text. What is read must be read again from what
// `ogrom hosts` prints, as the same hosts.
#include "src/config/hosts.h"

#include <cstdlib>

#include "src/base/error.h"

#include "tests/fuzz/support.h"

namespace {

std::string printed(const std::vector<ogrom::HostEntry>& hosts) {
    std::string text;
    for (const ogrom::HostEntry& host : hosts) {
        text += host.text() + "\n";
    }
    return text;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string_view text = ogrom::fuzz::text_of(data, size);
    if (text.empty()) {
        return 0;
    }
    const char kind = text.front();
    text.remove_prefix(1);
    ogrom::fuzz::accept([&] {
        std::vector<ogrom::HostEntry> hosts;
        if (kind == 's') {
            hosts = ogrom::parse_nodelist("n[1-4]", "list");
            ogrom::set_slots(hosts, text, "slots");
            ogrom::require_slots(hosts);
        } else {
            hosts = kind == 'l' ? ogrom::parse_nodelist(text, "list") : ogrom::parse_hostfile(text, "hosts");
        }
        const std::string once = printed(hosts);
        std::string twice;
        try {
            twice = printed(ogrom::parse_hostfile(once, "printed"));
        } catch (const ogrom::Error&) {
            std::abort();  // what we print, mpirun reads
        }
        if (once != twice) {
            std::abort();
        }
    });
    return 0;
}
