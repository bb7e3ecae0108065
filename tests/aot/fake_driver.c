// A CUDA driver that launches nothing: it writes down what it is asked for, a line a call, to the file that
// FAKE_DRIVER_LOG names. The tests of the launchers load it under the name of the real one.
#include <cuda.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread CUcontext current;
static uint64_t tensor_map_number;

static void note(const char* format, ...) {
    FILE* log = fopen(getenv("FAKE_DRIVER_LOG"), "a");
    va_list arguments;
    va_start(arguments, format);
    vfprintf(log, format, arguments);
    va_end(arguments);
    fputc('\n', log);
    fclose(log);
}

CUresult cuInit(unsigned flags) { return CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult error, const char** text) {
    *text = error == CUDA_ERROR_NO_BINARY_FOR_GPU ? "no kernel image is available" : "an error";
    return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) {
    if (!current) return CUDA_ERROR_INVALID_CONTEXT;
    *device = (CUdevice)(uintptr_t)current - 1;
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    *context = (CUcontext)(uintptr_t)(device + 1);
    return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent_v2(CUcontext context) {
    note("push %d", (int)(uintptr_t)context - 1);
    current = context;
    return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent_v2(CUcontext* context) {
    note("pop");
    current = 0;
    return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    CUstreamCaptureMode before = CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (*mode == CU_STREAM_CAPTURE_MODE_GLOBAL) before = CU_STREAM_CAPTURE_MODE_RELAXED;
    *mode = before;
    return CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    if (getenv("FAKE_DRIVER_REFUSES")) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    note("load %.4s", (const char*)image);
    *module = (CUmodule)image;
    return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    *function = (CUfunction)strdup(name);
    return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    note("shared %s %d", (const char*)function, value);
    return CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeTiled(
    CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* shape,
    const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    char text[512];
    int end = snprintf(text, sizeof text, "map %d type %d address %lu shape", (int)++tensor_map_number, type, (long)address);
    for (cuuint32_t i = 0; i < rank; i++) end += snprintf(text + end, sizeof text - end, " %lu", (long)shape[i]);
    end += snprintf(text + end, sizeof text - end, " strides");
    for (cuuint32_t i = 0; i + 1 < rank; i++) end += snprintf(text + end, sizeof text - end, " %lu", (long)strides[i]);
    end += snprintf(text + end, sizeof text - end, " box");
    for (cuuint32_t i = 0; i < rank; i++) end += snprintf(text + end, sizeof text - end, " %u", box[i]);
    note("%s swizzle %d", text, swizzle);
    map->opaque[0] = tensor_map_number;
    return CUDA_SUCCESS;
}
// The first 8 bytes of each argument, as a number: a test knows which of them mean something.
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments, void** extra) {
    note(
        "launch %s grid %u %u %u block %u %u %u shared %u stream %lu attributes %u", (const char*)function,
        config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY, config->blockDimZ,
        config->sharedMemBytes, (long)config->hStream, config->numAttrs);
    const char* kinds = getenv("FAKE_DRIVER_ARGUMENTS");
    for (int i = 0; kinds && kinds[i]; i++) {
        if (kinds[i] == 'p') note("  pointer %lu", *(uint64_t*)arguments[i]);
        if (kinds[i] == 'i') note("  int %d", *(int32_t*)arguments[i]);
        if (kinds[i] == 'f') note("  float %g", *(float*)arguments[i]);
        if (kinds[i] == 'm') note("  map %lu", ((CUtensorMap*)arguments[i])->opaque[0]);
    }
    return CUDA_SUCCESS;
}
