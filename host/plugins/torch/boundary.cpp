#include "plugins/torch/boundary.hpp"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <mutex>
#include <sstream>

#include "base/text.hpp"
#include "memory/caught_error.hpp"

namespace wmtp {
namespace {

thread_local const char* current_plugin = nullptr;
thread_local const char* current_call = nullptr;
std::terminate_handler handler_before = nullptr;

[[noreturn]] void on_terminate() {
  if (current_plugin != nullptr) {
    std::fprintf(stderr,
                 "error: plugin %s: %s() ended the process (std::terminate: an exception left a destructor or a "
                 "noexcept function, or a thread)\n",
                 current_plugin, current_call);
    _exit(int(ExitStatus::plugin));
  }
  handler_before();
  std::abort();
}

[[noreturn]] void refuse(const WeightsCall& call, const std::string& reason) {
  throw Error(ExitStatus::plugin, "plugin " + call.plugin + ": weigh() at step " + std::to_string(call.step) +
                                      (call.head > 0 ? ", head " + std::to_string(call.head) : "") + ": " + reason);
}

const char* meaning_text(const Weights& weights) {
  return weights.meaning == Weights::Meaning::by_target ? "by_target" : "by_source";
}

bool is_uniform(const Weights& weights) { return weights.meaning == Weights::Meaning::uniform; }

}  // namespace

OptionError::OptionError(const std::string& plugin, const std::string& call, const BadOption& bad)
    : Error(ExitStatus::plugin,
            "plugin " + plugin + ": " + call + "() refuses option '" + bad.option() + "': " + bad.what()),
      plugin_(plugin),
      option_(bad.option()),
      message_(bad.what()),
      at_(bad.at()) {}

namespace detail {

PluginCallScope::PluginCallScope(const std::string& plugin, const char* call)
    : outer_plugin_(current_plugin), outer_call_(current_call) {
  static std::once_flag installed;
  std::call_once(installed, [] { handler_before = std::set_terminate(on_terminate); });
  current_plugin = plugin.c_str();
  current_call = call;
}

PluginCallScope::~PluginCallScope() {
  current_plugin = outer_plugin_;
  current_call = outer_call_;
}

void rethrow_as_plugin_error(const std::string& plugin, const char* call) {
  const std::string where = "plugin " + plugin + ": " + call + "() ";
  try {
    throw;
  } catch (const BadOption& bad) {
    throw OptionError(plugin, call, bad);
  } catch (const Error& error) {
    if (error.status() != ExitStatus::plugin) throw;
    throw Error(ExitStatus::plugin, where + "failed: " + error.what());
  } catch (const c10::OutOfMemoryError&) {
    throw Error(ExitStatus::device_memory, where + "failed: " + caught_error().what());
  } catch (const std::bad_alloc&) {
    throw Error(ExitStatus::device_memory, where + "failed: " + caught_error().what());
  } catch (const c10::Error& error) {
    throw Error(ExitStatus::plugin, where + "threw: " + error.what_without_backtrace());
  } catch (const std::exception& error) {
    throw Error(ExitStatus::plugin, where + "threw: " + error.what());
  } catch (...) {
    throw Error(ExitStatus::plugin, where + "threw an exception that is not derived from std::exception");
  }
}

}  // namespace detail

void check_weights_form(const WeightsCall& call, const Weights& weights) {
  if (is_uniform(weights)) {
    if (weights.values.defined())
      refuse(call, "returned values together with the meaning uniform; use by_target or by_source");
    return;
  }
  const bool target = weights.meaning == Weights::Meaning::by_target;
  if (target && call.by_target.empty())
    refuse(call, "returned by_target at When::token, which supports only by_source");
  const std::vector<int64_t>& wanted = target ? call.by_target : call.by_source;
  if (!weights.values.defined()) refuse(call, std::string("returned ") + meaning_text(weights) + " without values");
  if (weights.values.layout() != at::kStrided) refuse(call, "returned a sparse tensor, wanted a dense one");
  if (weights.values.sizes() != at::IntArrayRef(wanted)) {
    refuse(call, std::string("returned ") + meaning_text(weights) + " of shape " + shape_text(weights.values.sizes()) +
                     ", wanted " + shape_text(wanted));
  }
  if (weights.values.scalar_type() != at::kFloat) {
    refuse(call, std::string("returned values of type ") + c10::toString(weights.values.scalar_type()) +
                     ", wanted Float (fp32)");
  }
  if (weights.values.device() != call.device) {
    refuse(call, "returned values on " + weights.values.device().str() + ", wanted " + call.device.str() +
                     ", the batch's device");
  }
  if (!(weights.max_nonzero_share > 0 && weights.max_nonzero_share <= 1))
    refuse(call,
           "returned share " + printed("%g", weights.max_nonzero_share) + ", wanted a fraction over 0 and at most 1");
}

Tensor weight_faults(const WeightsCall& call, const Weights& weights) {
  if (is_uniform(weights)) return at::zeros({2}, at::kFloat);
  const Tensor& values = weights.values;
  // An empty tensor has no minimum; an additional zero changes neither result. A NaN is both minimum and maximum.
  const auto [smallest, largest] = at::aminmax(at::cat({values.flatten(), values.new_zeros({1})}));
  const Tensor not_finite = at::isfinite(smallest).logical_and(at::isfinite(largest)).logical_not();
  const Tensor negative = call.signed_weights ? at::zeros_like(not_finite) : smallest.lt(0);
  return at::stack({not_finite, negative}).to(at::kFloat);
}

void refuse_weights(const WeightsCall& call, const Weights& weights) {
  const Tensor values = weights.values.detach().to(at::kCPU).contiguous();
  const float* const data = values.const_data_ptr<float>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    const bool finite = std::isfinite(data[i]);
    if (finite && (call.signed_weights || data[i] >= 0)) continue;
    std::vector<int64_t> index(size_t(values.dim()));
    int64_t rest = i;
    for (int64_t d = values.dim() - 1; d >= 0; rest /= values.size(d--)) index[d] = rest % values.size(d);
    std::ostringstream text;
    text << "returned " << data[i] << " at " << shape_text(index) << ", wanted a finite number"
         << (call.signed_weights ? "" : ", not negative")
         << (finite ? " (unless its needs() declare signed_weights; of formula: signed(x))" : "");
    refuse(call, text.str());
  }
  refuse(call, "another rank's weights are negative or not finite");
}

}  // namespace wmtp
