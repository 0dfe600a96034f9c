// NVML, libnvidia-ml.so.1: reports that every device runs kernels for 37% of the time. LibTorch's allocator also loads
// the library, to list the processes on a full device: it reports none.
constexpr int success = 0, not_supported = 3;
#define UNSUPPORTED(name) \
  extern "C" int name() { return not_supported; }
UNSUPPORTED(nvmlDeviceGetNvLinkRemoteDeviceType)
UNSUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
UNSUPPORTED(nvmlSystemGetCudaDriverVersion_v2)

extern "C" int nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, void*) {
  *count = 0;
  return success;
}

extern "C" int nvmlInit_v2() { return success; }

extern "C" int nvmlDeviceGetHandleByPciBusId_v2(const char*, void** device) {
  static int any = 0;
  *device = &any;
  return success;
}

extern "C" int nvmlDeviceGetUtilizationRates(void*, unsigned* rates) {
  rates[0] = 37;
  rates[1] = 0;
  return success;
}
