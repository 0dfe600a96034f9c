// The CUDA runtime's functions that LibTorch calls, on the null device. Preloaded, so that they replace libcudart's.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "activity.hpp"
#include "memory.hpp"
#include "order.hpp"
#include "settings.hpp"

namespace null_cuda {
namespace {

constexpr int compute_capability = 9, multiprocessors = 132, shared_memory = 232448;  // as on an H200

thread_local int current_device = 0;

/// Kernels by the address of their host function.
std::map<const void*, std::string>& kernels() {
  static auto* const all = new std::map<const void*, std::string>;
  return *all;
}

std::string name_of(const void* kernel) {
  const auto known = kernels().find(kernel);
  return known == kernels().end() ? "unknown kernel" : known->second;
}

template <class Handle>
Handle new_handle() {
  static std::atomic<uintptr_t> last{0x1000};
  return reinterpret_cast<Handle>(last += 16);
}

/// Replaces LibTorch's CUDA kernels by the CPU's, once libtorch_cuda has registered them (cpu_kernels.cpp).
void take_over_kernels() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (!settings().computes) return;
    Dl_info here{};
    dladdr(reinterpret_cast<void*>(&take_over_kernels), &here);
    const std::string file =
        std::string(here.dli_fname).substr(0, std::string(here.dli_fname).rfind('/')) + "/libnull_cuda_kernels.so";
    if (dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return;
    std::fprintf(stderr, "null_cuda: %s\n", dlerror());
    _exit(1);
  });
}

cudaError_t wait_for(const char* call) {
  count_sync(call);
  wait_for_device();
  return cudaSuccess;
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  count_copy(to, from, stream != nullptr);
  access(stream, from, bytes, false, "a copy");
  access(stream, to, bytes, true, "a copy");
  if (hangs()) return cudaSuccess;
  std::memcpy(shadow(to), shadow(from), bytes);
  const bool to_host = on_device(from) && !on_device(to);
  if (to_host && !settings().computes && bytes <= sizeof(long) &&
      last_launch().find("DeviceReduceSingleTileKernel") != std::string::npos)
    std::memcpy(to, &settings().nonzero, bytes);
  // A copy to or from pageable memory blocks until it is done.
  if (on_device(from) != on_device(to) && !is_pinned(to_host ? to : from)) {
    host_waits_for_stream(stream);
    return wait_for("copy of pageable memory");
  }
  return cudaSuccess;
}

cudaError_t launch(const void* kernel) {
  count_launch(name_of(kernel));
  return cudaSuccess;
}

}  // namespace
}  // namespace null_cuda

using namespace null_cuda;

extern "C" {

// Devices.

cudaError_t cudaGetDeviceCount(int* count) {
  *count = settings().devices;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  take_over_kernels();
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "null H200");
  properties->totalGlobalMem = capacity();
  properties->major = compute_capability;
  properties->multiProcessorCount = multiprocessors;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 2147483647;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxBlocksPerMultiProcessor = 32;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->sharedMemPerBlock = 49152;
  properties->sharedMemPerBlockOptin = shared_memory;
  properties->sharedMemPerMultiprocessor = shared_memory + 1024;
  properties->totalConstMem = 65536;
  properties->textureAlignment = 512;
  properties->l2CacheSize = 50 << 20;
  properties->asyncEngineCount = 3;
  properties->concurrentKernels = properties->canMapHostMemory = properties->unifiedAddressing = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  static const std::map<cudaDeviceAttr, int> known{{cudaDevAttrComputeCapabilityMajor, compute_capability},
                                                   {cudaDevAttrMultiProcessorCount, multiprocessors},
                                                   {cudaDevAttrWarpSize, 32},
                                                   {cudaDevAttrMaxThreadsPerBlock, 1024},
                                                   {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
                                                   {cudaDevAttrMaxBlocksPerMultiprocessor, 32},
                                                   {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
                                                   {cudaDevAttrMaxBlockDimX, 1024},
                                                   {cudaDevAttrMaxBlockDimY, 1024},
                                                   {cudaDevAttrMaxGridDimX, 2147483647},
                                                   {cudaDevAttrMaxGridDimY, 65535},
                                                   {cudaDevAttrMaxGridDimZ, 65535},
                                                   {cudaDevAttrMaxSharedMemoryPerBlock, 49152},
                                                   {cudaDevAttrMaxSharedMemoryPerBlockOptin, shared_memory},
                                                   {cudaDevAttrMaxSharedMemoryPerMultiprocessor, shared_memory + 1024}};
  const auto found = known.find(attribute);
  *value = found == known.end() ? 0 : found->second;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  std::snprintf(text, size_t(length), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = new_handle<cudaMemPool_t>();
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  host_waits_for_all();
  return wait_for("cudaDeviceSynchronize");
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "an error of the null device";
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "an error of the null device";
}

// Memory.

cudaError_t cudaMalloc(void** address, size_t bytes) {
  *address = allocate(bytes);
  count_allocation();
  return *address ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* address) {
  if (!address) return cudaSuccess;
  host_waits_for_all();  // cudaFree waits for the device
  return release(address) ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = capacity();
  *free = capacity() - in_use();
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  *address = allocate_pinned(bytes);
  return *address ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void* address) {
  release_pinned(address);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  *attributes = {};
  attributes->type = on_device(address)   ? cudaMemoryTypeDevice
                     : is_pinned(address) ? cudaMemoryTypeHost
                                          : cudaMemoryTypeUnregistered;
  attributes->devicePointer = const_cast<void*>(address);
  attributes->hostPointer = on_device(address) ? nullptr : const_cast<void*>(address);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  const cudaError_t result = copy(to, from, bytes, nullptr);
  host_waits_for_stream(nullptr);
  wait_for("cudaMemcpy");
  return result;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return copy(to, from, bytes, stream);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  return copy(to, from, bytes, stream);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  count_launch("memset");
  access(stream, to, bytes, true, "a memset");
  // If kernels do not compute, large blocks need no content, and the shadow no pages.
  if (settings().computes || value != 0 || bytes < (size_t(1) << 20)) std::memset(shadow(to), value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, nullptr); }
cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, cudaMemcpyKind) { return cudaSuccess; }
cudaError_t cudaGetSymbolAddress(void** address, const void*) { return cudaMalloc(address, 4096); }

// Streams and events.

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = new_handle<cudaStream_t>();
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  host_waits_for_stream(stream);
  return wait_for("cudaStreamSynchronize");
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (hangs()) return cudaErrorNotReady;
  host_waits_for_stream(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  wait(stream, event);
  return cudaSuccess;
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned) {
  function(stream, cudaSuccess, data);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new_handle<cudaEvent_t>();
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  event_recorded(event);
  record(event, stream);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (is_unreached(event)) return cudaErrorNotReady;
  host_waits_for_event(event);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  host_waits_for_event(event);
  return wait_for("cudaEventSynchronize");
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1;
  return cudaSuccess;
}

// Graphs are never captured.

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t*, const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*) {
  *status = cudaStreamCaptureStatusNone;
  if (id) *id = 0;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }

// Kernels. Their host functions are registered by the constructors of the libraries that contain them.

void** __cudaRegisterFatBinary(void*) {
  static void* handle[2];
  return handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  kernels()[host] = name;
}

thread_local struct {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
} call_configuration;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  call_configuration = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = call_configuration.grid;
  *block = call_configuration.block;
  *shared = call_configuration.shared;
  *static_cast<cudaStream_t*>(stream) = call_configuration.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, size_t, cudaStream_t) { return launch(kernel); }
cudaError_t cudaLaunchKernel(const void* kernel, dim3, dim3, void**, size_t, cudaStream_t) { return launch(kernel); }
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void* kernel, void**) { return launch(kernel); }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 64;
  attributes->binaryVersion = attributes->ptxVersion = 10 * compute_capability;
  attributes->maxDynamicSharedSizeBytes = 49152;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int threads, size_t,
                                                                   unsigned) {
  *blocks = threads > 0 && threads < 2048 ? 2048 / threads : 1;
  return cudaSuccess;
}

// The driver's functions that LibTorch looks up: none of them is needed.

cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  static const auto nothing = +[] { return 0; };
  *function = reinterpret_cast<void*>(nothing);
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

}  // extern "C"
