// libcudnn and libnvrtc, opened when attention first asks for them: the program starts without either. The headers of
// cudnn-frontend call the functions below by name; each hands its arguments to the library. Hidden, so that the
// libraries keep calling their own.
#include <cudnn.h>
#include <dlfcn.h>
#include <nvrtc.h>

#include "kernels/cuda/attention.h"

namespace ogrom::cuda {
namespace {

constexpr const char* cudnn_symbols[] = {"cudnnCreate",
                                         "cudnnDestroy",
                                         "cudnnSetStream",
                                         "cudnnGetStream",
                                         "cudnnGetVersion",
                                         "cudnnGetErrorString",
                                         "cudnnGetLastErrorString",
                                         "cudnnBackendCreateDescriptor",
                                         "cudnnBackendFinalize",
                                         "cudnnBackendExecute",
                                         "cudnnBackendGetAttribute",
                                         "cudnnBackendSetAttribute",
                                         "cudnnBackendDestroyDescriptor"};

// Never closed: graphs live to the end of the process. The second name is where the build found the library.
void* open_library(const char* name, const char* built_with) {
    void* handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    return handle != nullptr ? handle : dlopen(built_with, RTLD_NOW | RTLD_GLOBAL);
}
void* cudnn() {
    static void* const handle = open_library("libcudnn.so.9", OGROM_CUDNN_LIBRARY);
    return handle;
}
void* nvrtc() {
    static void* const handle = open_library(OGROM_NVRTC_NAME, OGROM_NVRTC_LIBRARY);
    return handle;
}

CudnnLibrary look() {
    CudnnLibrary library;
    if (cudnn() == nullptr) {
        const char* why = dlerror();
        library.reason = std::string("libcudnn.so.9 cannot be opened: ") + (why != nullptr ? why : "no reason given");
        return library;
    }
    for (const char* symbol : cudnn_symbols) {
        if (dlsym(cudnn(), symbol) == nullptr) {
            library.reason = std::string("libcudnn.so.9 has no ") + symbol;
            return library;
        }
    }
    library.version = static_cast<i64>(cudnnGetVersion());
    library.found = library.version >= 90000;
    if (!library.found) {
        library.reason = "libcudnn is older than 9.0: " + std::to_string(library.version);
    }
    return library;
}

template <class Function>
Function* entry(void* library, const char* name) {
    return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

const CudnnLibrary& cudnn_library() {
    static const CudnnLibrary library = look();
    return library;
}

}  // namespace ogrom::cuda

// Only called where cudnn_library().found, so the entry is there.
#define OGROM_CUDNN(result, name, parameters, arguments)                                               \
    extern "C" __attribute__((visibility("hidden"))) result name parameters {                          \
        static auto* const function = ogrom::cuda::entry<decltype(name)>(ogrom::cuda::cudnn(), #name); \
        return function arguments;                                                                     \
    }
#define OGROM_NVRTC(name, parameters, arguments)                                                       \
    extern "C" __attribute__((visibility("hidden"))) nvrtcResult name parameters {                     \
        static auto* const function = ogrom::cuda::entry<decltype(name)>(ogrom::cuda::nvrtc(), #name); \
        return function == nullptr ? NVRTC_ERROR_INTERNAL_ERROR : function arguments;                  \
    }

OGROM_CUDNN(cudnnStatus_t, cudnnCreate, (cudnnHandle_t * handle), (handle))
OGROM_CUDNN(cudnnStatus_t, cudnnDestroy, (cudnnHandle_t handle), (handle))
OGROM_CUDNN(cudnnStatus_t, cudnnSetStream, (cudnnHandle_t handle, cudaStream_t stream), (handle, stream))
OGROM_CUDNN(cudnnStatus_t, cudnnGetStream, (cudnnHandle_t handle, cudaStream_t* stream), (handle, stream))
OGROM_CUDNN(size_t, cudnnGetVersion, (), ())
OGROM_CUDNN(const char*, cudnnGetErrorString, (cudnnStatus_t status), (status))
OGROM_CUDNN(void, cudnnGetLastErrorString, (char* message, size_t bytes), (message, bytes))
OGROM_CUDNN(cudnnStatus_t, cudnnBackendCreateDescriptor,
            (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor), (type, descriptor))
OGROM_CUDNN(cudnnStatus_t, cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t descriptor), (descriptor))
OGROM_CUDNN(cudnnStatus_t, cudnnBackendFinalize, (cudnnBackendDescriptor_t descriptor), (descriptor))
OGROM_CUDNN(cudnnStatus_t, cudnnBackendExecute,
            (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack), (handle, plan, pack))
OGROM_CUDNN(cudnnStatus_t, cudnnBackendSetAttribute,
            (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
             int64_t count, const void* elements),
            (descriptor, name, type, count, elements))
OGROM_CUDNN(cudnnStatus_t, cudnnBackendGetAttribute,
            (const cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
             cudnnBackendAttributeType_t type, int64_t asked, int64_t* count, void* elements),
            (descriptor, name, type, asked, count, elements))

OGROM_NVRTC(nvrtcCreateProgram,
            (nvrtcProgram * program, const char* source, const char* name, int headers, const char* const* texts,
             const char* const* names),
            (program, source, name, headers, texts, names))
OGROM_NVRTC(nvrtcDestroyProgram, (nvrtcProgram * program), (program))
OGROM_NVRTC(nvrtcCompileProgram, (nvrtcProgram program, int count, const char* const* options),
            (program, count, options))
OGROM_NVRTC(nvrtcGetCUBINSize, (nvrtcProgram program, size_t* bytes), (program, bytes))
OGROM_NVRTC(nvrtcGetCUBIN, (nvrtcProgram program, char* cubin), (program, cubin))
OGROM_NVRTC(nvrtcGetProgramLogSize, (nvrtcProgram program, size_t* bytes), (program, bytes))
OGROM_NVRTC(nvrtcGetProgramLog, (nvrtcProgram program, char* log), (program, log))
#undef OGROM_CUDNN
#undef OGROM_NVRTC
