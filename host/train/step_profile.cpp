#include "train/step_profile.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <cstdlib>

#include "io/durable_file.hpp"

namespace wmtp {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

StepProfile::StepProfile(const c10::Device& device) : device_(device) {
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO,
                                                     /*report_input_shapes=*/true);
  std::set<ActivityType> activities{ActivityType::CPU};
  if (device.is_cuda())
    activities.insert(ActivityType::CUDA);
  else
    setenv("KINETO_LOG_LEVEL", "99", /*overwrite=*/0);  // it would report the missing GPU as an error
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
}

StepProfile::~StepProfile() {
  if (records_) profiler::disableProfiler();
}

void StepProfile::save(const std::filesystem::path& file) {
  // Kernels that end after the recording would be missing.
  if (device_.is_cuda()) c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index());
  records_ = false;
  const auto recording = profiler::disableProfiler();
  FileDraft draft(file);
  recording->save(draft.path());
  draft.publish();
}

}  // namespace wmtp
