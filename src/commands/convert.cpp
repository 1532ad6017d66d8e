// ogrom convert: a checkpoint in another form. Next: commands/convert_<format>.cpp
#include "src/commands/convert.h"

#include <memory>

#include "src/commands/arguments.h"
#include "src/commands/commands.h"

namespace ogrom {
namespace {

enum class Format { ogrom, onnx, hf };

// What a value of an option of one format means under another.
struct Given {
    CLI::Option *from, *to, *writers, *weights_only, *type, *shard_bytes;

    void check(Format format) const {
        require(from->count() + to->count() == 1, ExitCode::usage,
                "give one of --to ogrom, --to onnx, --to hf and --from hf");
        const bool ogrom = to->count() > 0 && format == Format::ogrom, hf = to->count() > 0 && format == Format::hf;
        require(ogrom || writers->count() + weights_only->count() == 0, ExitCode::usage,
                "--writers and --weights-only go with --to ogrom");
        require(hf || type->count() + shard_bytes->count() == 0, ExitCode::usage,
                "--dtype and --shard-bytes go with --to hf");
    }
};

int convert(const ConvertOptions& options, bool from, Format format) {
    if (from) {
        return convert_from_hf(options);
    }
    switch (format) {
        case Format::onnx:
            return convert_to_onnx(options);
        case Format::hf:
            return convert_to_hf(options);
        case Format::ogrom:
            break;
    }
    return convert_to_ogrom(options);
}

Given add_options(CLI::App* command, ConvertOptions& options, Format& format, Dtype& type) {
    command
        ->add_option("SOURCE", options.source,
                     "a step folder, a checkpoints folder or a run's folder (the newest complete one); with --from, a "
                     "folder of that form")
        ->required();
    Given given{};
    given.to = command
                   ->add_option("--to", format,
                                "ogrom: a checkpoint of --writers part files, bit for bit the same; onnx: a model for "
                                "ONNX Runtime, weights in fp32 beside it; hf: a folder for transformers (GPT-2). Host "
                                "memory of ogrom and onnx stays below 256 MiB whatever the size of the model (ten "
                                "thousands of parts take more), hf takes the largest matrix of a layer twice")
                   ->transform(one_of<Format>({{"ogrom", Format::ogrom}, {"onnx", Format::onnx}, {"hf", Format::hf}}));
    given.from = command
                     ->add_option("--from", format,
                                  "hf: a checkpoint of step 0 from a folder with config.json and model.safetensors "
                                  "(GPT-2); weights alone")
                     ->transform(one_of<Format>({{"hf", Format::hf}}));
    command->add_option("--out", options.out, "the folder to make; there must be none of this name, or an empty one")
        ->required();
    given.writers =
        command->add_option("--writers", options.writers, "--to ogrom: number of part files")->capture_default_str();
    given.weights_only = command->add_flag("--weights-only", options.weights_only,
                                           "--to ogrom: without the optimizer's state; such a one cannot resume");
    given.type = command
                     ->add_option("--dtype", type,
                                  "--to hf: type of the values, rounded to the nearest; else that of the files "
                                  "a checkpoint of step 0 was made from, or as the checkpoint has them")
                     ->transform(one_of<Dtype>({{"fp32", Dtype::fp32}, {"bf16", Dtype::bf16}, {"fp16", Dtype::fp16}}));
    given.shard_bytes = command
                            ->add_option("--shard-bytes", options.shard_bytes,
                                         "--to hf: bytes of values above which they go into several files")
                            ->capture_default_str();
    return given;
}

}  // namespace

void add_convert(CLI::App& app, Invocation& chosen) {
    CLI::App* command = app.add_subcommand("convert", "Write a checkpoint anew in another form");
    const auto options = std::make_shared<ConvertOptions>();
    const auto format = std::make_shared<Format>();
    const auto type = std::make_shared<Dtype>();
    const Given given = add_options(command, *options, *format, *type);
    command->footer(
        "Examples: ogrom convert results/runs/demo --to onnx --out demo-onnx\n"
        "          ogrom convert gpt2 --from hf --out gpt2-start");
    command->callback([options, format, type, given, &chosen] {
        given.check(*format);
        if (given.type->count() > 0) {
            options->type = *type;
        }
        const bool from = given.from->count() > 0;
        chosen.needs_session = false;
        chosen.run = alone("convert", [options, format, from] { return convert(*options, from, *format); });
    });
}

}  // namespace ogrom
