#include "core/checkpoints/adapter_identity.hpp"

namespace wmtp {

using nlohmann::json;

json identity_json(const AdapterIdentity& adapter, const std::string& base) {
  json options = json::object();
  for (const auto& [name, value] : adapter.options)
    std::visit([&, &key = name](const auto& held) { options[key] = held; }, value);
  json identity{{"format_version", adapter_format_version},
                {"plugin", adapter.plugin},
                {"version", adapter.version},
                {"options", std::move(options)},
                {"base_fingerprint", base}};
  if (!adapter.base_path.empty()) identity["base_path"] = adapter.base_path;
  return identity;
}

}  // namespace wmtp
