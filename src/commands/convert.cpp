// ogrom convert: a checkpoint in another form. Next: commands/convert_<format>.cpp
#include "src/commands/convert.h"

#include <memory>

#include "src/commands/arguments.h"
#include "src/commands/commands.h"

namespace ogrom {
namespace {

enum class Format { ogrom, onnx };

}  // namespace

void add_convert(CLI::App& app, Invocation& chosen) {
    CLI::App* command = app.add_subcommand("convert", "Write a checkpoint anew in another form");
    const auto options = std::make_shared<ConvertOptions>();
    const auto to = std::make_shared<Format>();
    command
        ->add_option("CHECKPOINT", options->source,
                     "a step folder, a checkpoints folder or a run's folder (the newest complete one)")
        ->required();
    command
        ->add_option("--to", *to,
                     "ogrom: a checkpoint of --writers part files, bit for bit the same; onnx: a model for ONNX "
                     "Runtime, weights in fp32 beside it. Host memory stays below 256 MiB whatever the size of the "
                     "model (ten thousands of parts take more)")
        ->required()
        ->transform(one_of<Format>({{"ogrom", Format::ogrom}, {"onnx", Format::onnx}}));
    command->add_option("--out", options->out, "the folder to make; there must be none of this name, or an empty one")
        ->required();
    CLI::Option* const writers =
        command->add_option("--writers", options->writers, "--to ogrom: number of part files")->capture_default_str();
    CLI::Option* const weights_only = command->add_flag(
        "--weights-only", options->weights_only, "--to ogrom: without the optimizer's state; such a one cannot resume");
    command->footer("Example: ogrom convert results/runs/demo --to onnx --out demo-onnx");
    command->callback([options, to, writers, weights_only, &chosen] {
        require(*to == Format::ogrom || writers->count() + weights_only->count() == 0, ExitCode::usage,
                "--writers and --weights-only go with --to ogrom");
        chosen.needs_session = false;
        chosen.run = alone("convert", [options, to] {
            return *to == Format::onnx ? convert_to_onnx(*options) : convert_to_ogrom(*options);
        });
    });
}

}  // namespace ogrom
