// What a run makes before it is known that it will run: a folder and files in it. A run that is refused (it does not
// fit, its checkpoint does not match) takes them away again, and nothing that stood there before.
#pragma once
#include <string>
#include <vector>

namespace ogrom {

class Provisional {
public:
    // Makes `folder` (mkdir -p) and remembers which levels of its path are new. Throws Error(checkpoint).
    explicit Provisional(const std::string& folder);
    ~Provisional();  // unless kept: removes the files that were added, then the new folders as far as they are empty
    Provisional(const Provisional&) = delete;
    Provisional& operator=(const Provisional&) = delete;

    // A file of the folder that this run is about to make; one that exists already will stay.
    void add(const std::string& name);
    void keep();  // the run is accepted

private:
    std::string folder_;
    std::vector<std::string> new_folders_, new_files_;  // outermost folder first
};

}  // namespace ogrom
