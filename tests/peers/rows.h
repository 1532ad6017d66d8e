// Rows of results/<area>/<name>.json, as the programs of this folder print them.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ogrom::peers {

using Json = nlohmann::ordered_json;

enum class Better { lower, higher };

struct Row {
    std::string name, unit;
    Better better = Better::lower;
    std::vector<double> samples;
    double limit = 0;
    std::string limit_name;
    Json extra;
};

double median(std::vector<double> values);
std::string machine();  // processor and cores, as every record names it
// The value is the median of the samples.
Json row_of(const Row& row, const std::string& command);
// "name value": the arguments of the program.
std::string command_text(int argc, char** argv);

}  // namespace ogrom::peers
