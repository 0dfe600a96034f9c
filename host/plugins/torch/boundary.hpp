// The boundary between host and plugin: every call goes through `guarded`, and a weighting's result is checked before
// it is used. [engine]
//
// Any exception from a plugin becomes Error(plugin) with the plugin's name, the call and the exception's text; a
// BadOption becomes an OptionError, which is an Error(plugin). The host's own Error passes unchanged: it comes from a
// host function that the plugin called (for example, a lost peer). If a plugin ends the process with std::terminate,
// its name is printed on stderr and the process exits with the code for plugin faults.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>
#include <wmtp/pipeline.hpp>

#include "base/error.hpp"

namespace wmtp {

/// A plugin's BadOption as an Error(plugin) that keeps the option.
class OptionError : public Error {
 public:
  OptionError(const std::string& plugin, const std::string& call, const BadOption& bad);
  const std::string& plugin() const { return plugin_; }
  const std::string& option() const { return option_; }
  const std::string& message() const { return message_; }  ///< the plugin's message
  int64_t at() const { return at_; }

 private:
  std::string plugin_, option_, message_;
  int64_t at_;
};

namespace detail {
/// Records the plugin being called, for the terminate handler.
class PluginCallScope {
 public:
  PluginCallScope(const std::string& plugin, const char* call);
  ~PluginCallScope();
  PluginCallScope(const PluginCallScope&) = delete;

 private:
  const char* outer_plugin_;
  const char* outer_call_;
};

[[noreturn]] void rethrow_as_plugin_error(const std::string& plugin, const char* call);
}  // namespace detail

template <class Function>
decltype(auto) guarded(const std::string& plugin, const char* call, Function&& function) {
  const detail::PluginCallScope call_scope(plugin, call);
  try {
    return std::forward<Function>(function)();
  } catch (...) {
    detail::rethrow_as_plugin_error(plugin, call);
  }
}

/// The current call, for checking its result.
struct WeightsCall {
  std::string plugin;
  int64_t step = 0;
  int64_t head = 0;                ///< 0: not called per head
  std::vector<int64_t> by_target;  ///< [B,S]; empty at When::token, where only by_source is allowed
  std::vector<int64_t> by_source;  ///< the shape of Step::valid() of this call
  bool signed_weights = false;
  at::Device device = at::kCPU;  ///< the batch's
};

/// Checks shape, dtype, layout and device; reads no values. Error(plugin) with the found and the expected value. Call
/// it on every rank before any exchange that depends on the weights.
void check_weights_form(const WeightsCall& call, const Weights& weights);

/// [2] fp32 on the weights' device: whether any is not finite, whether any is negative (0 if that is allowed). Does not
/// synchronize with the device: the caller adds it to values that it reads anyway.
Tensor weight_faults(const WeightsCall& call, const Weights& weights);

/// If weight_faults was not zero: Error(plugin) with step, head, and index and value of the first bad weight. Slow.
[[noreturn]] void refuse_weights(const WeightsCall& call, const Weights& weights);

}  // namespace wmtp
