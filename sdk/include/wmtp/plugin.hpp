// The only header that a plugin includes, and the macro at the end of its source:
//
//   WMTP_PIPELINE(Focal, "focal", "1.0", "down-weights tokens that are already easy")
//
// The macro exports one symbol of plain data. Its NAME contains the fingerprint of the toolchain (sdk, LibTorch,
// compiler, C++ ABI), so the host can refuse a plugin built with another one before any of its code runs.
#pragma once

#include <type_traits>

#include <wmtp/adapter.hpp>
#include <wmtp/fingerprint.hpp>
#include <wmtp/pipeline.hpp>

namespace wmtp {

/// Plain data of the exported symbol. `create` returns a new instance, owned by the caller, as a pointer to the base
/// class that `kind` and `role` name. The library is never closed, so the instance may live as long as the process.
struct PluginEntry {
  const char* kind;  ///< "pipeline" or "adapter"
  const char* role;  ///< "weighting", "wrapper", "objective" or "adapter"
  const char* name;
  const char* version;
  const char* summary;
  void* (*create)();
};

namespace detail {
template <class Plugin> constexpr const char* role_of() {
  static_assert(std::is_base_of_v<Weighting, Plugin> || std::is_base_of_v<Objective, Plugin> ||
                std::is_base_of_v<Adapter, Plugin>, "a plugin derives from wmtp::Weighting, Objective or Adapter");
  if (std::is_base_of_v<Wrapper, Plugin>) return "wrapper";
  if (std::is_base_of_v<Weighting, Plugin>) return "weighting";
  if (std::is_base_of_v<Objective, Plugin>) return "objective";
  return "adapter";
}
template <class Plugin> void* create() {
  if constexpr (std::is_base_of_v<Wrapper, Plugin>) return static_cast<Wrapper*>(new Plugin);
  else if constexpr (std::is_base_of_v<Weighting, Plugin>) return static_cast<Weighting*>(new Plugin);
  else if constexpr (std::is_base_of_v<Objective, Plugin>) return static_cast<Objective*>(new Plugin);
  else return static_cast<Adapter*>(new Plugin);
}

/// Plugins linked into the host (the static build), which are registered in this list instead of loaded from files.
struct WMTP_SDK_API BuiltIn {
  explicit BuiltIn(const PluginEntry& entry);
  static const std::vector<const PluginEntry*>& all();
};
}  // namespace detail
}  // namespace wmtp

#define WMTP_DETAIL_ENTRY(Plugin, kind_, name_, version_, summary_) \
  {kind_, ::wmtp::detail::role_of<Plugin>(), name_, version_, summary_, &::wmtp::detail::create<Plugin>}

#ifdef WMTP_STATIC_PLUGIN
#define WMTP_DETAIL_PLUGIN(Plugin, kind_, name_, version_, summary_)                                          \
  namespace {                                                                                                 \
  const ::wmtp::PluginEntry wmtp_entry = WMTP_DETAIL_ENTRY(Plugin, kind_, name_, version_, summary_);          \
  const ::wmtp::detail::BuiltIn wmtp_built_in{wmtp_entry};                                                    \
  }
#else
#define WMTP_DETAIL_PLUGIN(Plugin, kind_, name_, version_, summary_) \
  WMTP_PLUGIN_API const ::wmtp::PluginEntry WMTP_ENTRY_SYMBOL =      \
      WMTP_DETAIL_ENTRY(Plugin, kind_, name_, version_, summary_);
#endif

#define WMTP_PIPELINE(Plugin, name, version, summary) WMTP_DETAIL_PLUGIN(Plugin, "pipeline", name, version, summary)
#define WMTP_ADAPTER(Plugin, name, version, summary) WMTP_DETAIL_PLUGIN(Plugin, "adapter", name, version, summary)
