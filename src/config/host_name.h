// What a host and a user may be called. Names end up in command lines of ssh and mpirun: nothing that a shell or an
// option parser reads as something else passes.
#pragma once
#include <string>
#include <string_view>

namespace ogrom {

// "" for a host name, an IPv4 or an IPv6 address; else what is wrong and what would be right.
std::string wrong_host_name(std::string_view name);
std::string wrong_user_name(std::string_view name);

// Equal for two spellings of one host: case, a final dot, forms of an IPv6 address.
std::string same_host_key(std::string_view name);

}  // namespace ogrom
