// A folder that a command makes as a whole: written under a temporary name beside it, renamed when everything in it is
// on the disk. Whoever looks at the name sees nothing or all of it.
#pragma once
#include <string>

#include "src/io/durable.h"

namespace ogrom {

class OutputFolder {
public:
    // `target`: absent, or an empty folder; Error(usage) else, so that nothing is ever overwritten. Makes the temporary
    // folder "TARGET.tmp-<host>-<pid>-<random>" after removing those that dead processes of this host left.
    OutputFolder(const Disk& disk, const std::string& target);
    ~OutputFolder();  // removes the temporary folder unless committed
    OutputFolder(const OutputFolder&) = delete;
    OutputFolder& operator=(const OutputFolder&) = delete;

    [[nodiscard]] const std::string& path() const { return temporary_; }  // where to write
    // Throws Error(checkpoint) with both figures unless `bytes` are free there.
    void require_room(i64 bytes) const;
    void commit();  // fsync of the folder, rename, fsync of the folder above

private:
    const Disk& disk_;
    std::string target_, temporary_;
};

}  // namespace ogrom
