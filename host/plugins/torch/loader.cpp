#include "plugins/torch/loader.hpp"

#define BOOST_DLL_USE_STD_FS
#include <boost/dll/shared_library.hpp>
#include <map>
#include <mutex>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "plugins/library_file.hpp"
#include "plugins/torch/options_binder.hpp"

namespace wmtp {
namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& reason) {
  throw Error(ExitStatus::plugin, where + ": " + reason);
}

/// Opened libraries by path. Never destroyed, so that none is closed at exit.
std::map<std::filesystem::path, boost::dll::shared_library>& libraries() {
  static auto* const opened = new std::map<std::filesystem::path, boost::dll::shared_library>;
  return *opened;
}

const PluginEntry& checked(const std::string& where, const PluginEntry& entry) {
  for (const char* text : {entry.name, entry.version, entry.summary})
    if (text == nullptr)
      refuse(where,
             "its entry has an empty field; end the source with WMTP_PIPELINE, WMTP_ADAPTER or "
             "WMTP_AUXILIARY_LOSS");
  const int factories = (entry.weighting != nullptr) + (entry.wrapper != nullptr) + (entry.objective != nullptr) +
                        (entry.adapter != nullptr) + (entry.auxiliary_loss != nullptr);
  if (factories != 1) refuse(where, "its entry has " + std::to_string(factories) + " factories, wanted one");
  return entry;
}

const PluginEntry& built_in(const PluginDescription& description) {
  for (const PluginEntry* entry : detail::BuiltIn::all()) {
    if (description.kind == kind_of(role_of(*entry)) && description.name == entry->name)
      return checked(description.name, *entry);
  }
  refuse("plugin " + description.name, "not linked into this build; add its folder with --plugin-dir");
}

template <class Base>
std::unique_ptr<Base> create(const PluginDescription& description, const OptionValues& options, PluginRole role) {
  const PluginEntry& entry = load_plugin(description);
  const std::string& name = description.name;
  if (const PluginRole found = role_of(entry); found != role)
    refuse("plugin " + name, std::string("its role is '") + to_string(found) + "', wanted '" + to_string(role) + "'");
  std::unique_ptr<Base> plugin = create_instance<Base>(entry);
  bind_options(name, *plugin, options);
  return plugin;
}

/// A wrapper and its inner weighting.
class Wrapped final : public Weighting {
 public:
  Wrapped(std::unique_ptr<Weighting> inner, std::unique_ptr<Wrapper> outer)
      : inner_(std::move(inner)), outer_(std::move(outer)) {
    outer_->wrap(*inner_);
  }
  Needs needs() const override { return outer_->needs(); }
  Weights weigh(TokenStep& step) override { return outer_->weigh(step); }
  Weights weigh(HeadStep& step) override { return outer_->weigh(step); }
  Weights weigh(BatchStep& step) override { return outer_->weigh(step); }
  Tensor value_loss(ValueStep& step) override { return outer_->value_loss(step); }

 private:
  std::unique_ptr<Weighting> inner_;  // outlives outer_
  std::unique_ptr<Wrapper> outer_;
};

}  // namespace

PluginRole role_of(const PluginEntry& entry) {
  using enum PluginRole;
  return entry.adapter          ? adapter
         : entry.auxiliary_loss ? auxiliary_loss
         : entry.objective      ? objective
         : entry.wrapper        ? wrapper
                                : weighting;
}

const PluginEntry& open_plugin(const std::filesystem::path& file) {
  check_library_file(file);
  check_fingerprint(file, entry_symbols(file), WMTP_ENTRY_SYMBOL_TEXT);

  static std::mutex one_at_a_time;
  const std::scoped_lock lock(one_at_a_time);
  using boost::dll::load_mode::rtld_local;
  using boost::dll::load_mode::rtld_now;
  boost::dll::shared_library& library = libraries()[std::filesystem::canonical(file)];
  try {
    if (!library.is_loaded()) library.load(file, rtld_now | rtld_local);
    return checked(file.string(), library.get<const PluginEntry>(WMTP_ENTRY_SYMBOL_TEXT));
  } catch (const std::system_error& error) {
    refuse(file.string(), std::string("cannot be loaded: ") + error.what());
  }
}

const PluginEntry& load_plugin(const PluginDescription& description) {
  if (description.path.empty()) return built_in(description);
  const std::string found = file_sha256_hex(description.path);
  if (found != description.sha256) {
    refuse(description.path.string(),
           "changed since it was probed: sha256 " + found + ", wanted " + description.sha256 + "; restart the run");
  }
  const PluginEntry& entry = open_plugin(description.path);
  if (description.kind != kind_of(role_of(entry)) || description.name != entry.name ||
      description.version != entry.version) {
    refuse(description.path.string(), "it declares itself as the " + std::string(to_string(kind_of(role_of(entry)))) +
                                          " '" + entry.name + "' " + entry.version + ", wanted the " +
                                          to_string(description.kind) + " '" + description.name + "' " +
                                          description.version);
  }
  return entry;
}

std::unique_ptr<Weighting> create_weighting(const PluginSetting& plugin, const PluginSetting* inner) {
  if (!inner) return create_weighting(plugin.description, plugin.options);
  return create_wrapper(plugin, create_weighting(inner->description, inner->options));
}
std::unique_ptr<Weighting> create_weighting(const PluginDescription& description, const OptionValues& options) {
  return create<Weighting>(description, options, PluginRole::weighting);
}
std::unique_ptr<Weighting> create_wrapper(const PluginSetting& plugin, std::unique_ptr<Weighting> inner) {
  return std::make_unique<Wrapped>(std::move(inner),
                                   create<Wrapper>(plugin.description, plugin.options, PluginRole::wrapper));
}
std::unique_ptr<Objective> create_objective(const PluginDescription& description, const OptionValues& options) {
  return create<Objective>(description, options, PluginRole::objective);
}
std::unique_ptr<AuxiliaryLoss> create_auxiliary_loss(const PluginDescription& description,
                                                     const OptionValues& options) {
  return create<AuxiliaryLoss>(description, options, PluginRole::auxiliary_loss);
}
std::unique_ptr<GuardedAdapter> create_adapter(const PluginDescription& description, const OptionValues& options) {
  return std::make_unique<GuardedAdapter>(description.name, create<Adapter>(description, options, PluginRole::adapter));
}

}  // namespace wmtp
