// The boundary between host and plugin: every call goes through `guarded`, and what a weighting returns is checked
// before anything else sees it. [engine]
//
// A plugin that throws, whatever it throws, becomes Error(plugin) with the plugin's name, the call and the text; a
// BadOption becomes an OptionError, which is one. The host's own Error passes unchanged: it comes from a question that
// the plugin asked (a lost peer, say). A plugin that ends the process by std::terminate is named on stderr, and the
// process exits with the code of a plugin's fault.
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

/// A plugin's BadOption: Error(plugin) that still knows the option.
class OptionError : public Error {
 public:
  OptionError(const std::string& plugin, const std::string& call, const BadOption& bad);
  const std::string& plugin() const { return plugin_; }
  const std::string& option() const { return option_; }
  const std::string& message() const { return message_; }  ///< the plugin's own words
  int64_t at() const { return at_; }

 private:
  std::string plugin_, option_, message_;
  int64_t at_;
};

namespace detail {
/// Names the plugin in hand for the terminate handler.
class PluginInHand {
 public:
  PluginInHand(const std::string& plugin, const char* call);
  ~PluginInHand();
  PluginInHand(const PluginInHand&) = delete;

 private:
  const char* outer_plugin_;
  const char* outer_call_;
};

[[noreturn]] void rethrow_as_plugin_error(const std::string& plugin, const char* call);
}  // namespace detail

template <class Function>
decltype(auto) guarded(const std::string& plugin, const char* call, Function&& function) {
  const detail::PluginInHand in_hand(plugin, call);
  try {
    return std::forward<Function>(function)();
  } catch (...) {
    detail::rethrow_as_plugin_error(plugin, call);
  }
}

/// The call in hand, for the checks of its answer.
struct WeightsCall {
  std::string plugin;
  int64_t step = 0;
  int64_t head = 0;                ///< 0: not called once a head
  std::vector<int64_t> by_target;  ///< [B,S]; empty at When::token, where only by_source can be given
  std::vector<int64_t> by_source;  ///< the shape of Step::valid() of this call
  bool signed_weights = false;
  at::Device device = at::kCPU;  ///< of the batch
};

/// Shape, dtype, layout and device against what is wanted; reads no value. Error(plugin) with found and wanted. Must be
/// called on every rank before any exchange that depends on the weights.
void check_weights_form(const WeightsCall& call, const Weights& weights);

/// [2] of fp32 on the weights' device: whether any is not finite, whether any is negative (0 where it may be). Reads no
/// value on the host: the caller adds it to what it reads anyway.
Tensor weight_faults(const WeightsCall& call, const Weights& weights);

/// After weight_faults was found not to be zero: Error(plugin) with step, head, first bad index and value. Slow.
[[noreturn]] void refuse_weights(const WeightsCall& call, const Weights& weights);

}  // namespace wmtp
