#include "src/io/checkpoint_type.h"

#include <optional>

#include "src/base/file.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/hdf5.h"
#include "src/io/io_thread.h"
#include "src/io/manifest.h"

namespace ogrom {

Dtype read_weight_type(const std::string& checkpoint) {
    const std::string path = verified_master(resolve_checkpoint(checkpoint));
    return on_io_thread([&] {
        const std::string tensor = "/weights/final_norm.weight";  // every model has it
        const h5::File file = h5::open_read(path);
        const h5::Dataset dataset = h5::open_dataset(file.get(), tensor, path);
        const h5::Type type(h5::check(H5Dget_type(dataset.get()), path, tensor));
        const std::optional<Dtype> stored = h5::dtype(type.get());
        require(stored.has_value(), ExitCode::checkpoint, path + ": " + tensor + ": a type that Ogrom does not write");
        return *stored;
    });
}

}  // namespace ogrom
