// ogrom convert --to onnx. Comes in: a checkpoint. Goes out: a folder for ONNX Runtime. Next: io/onnx.cpp
#include "src/base/error.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/commands/convert.h"
#include "src/io/onnx.h"

namespace ogrom {

int convert_to_onnx(const ConvertOptions& options) {
    const OnnxReport report = export_onnx(options.source, options.out);
    log_info("{}: step {}, {} parameters in {} tensors: {} {}, {} {}; keep the two files together", options.out,
             report.step, report.parameters, report.tensors, onnx_model_name, human_bytes(report.model_bytes),
             onnx_data_name, human_bytes(report.data_bytes));
    return static_cast<int>(ExitCode::done);
}

}  // namespace ogrom
