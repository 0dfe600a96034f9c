#include "checkpoint/adapter_identity.hpp"

#include "base/json.hpp"

namespace wmtp {

using nlohmann::json;

json identity_json(const AdapterIdentity& adapter, const std::string& base) {
  json identity{{"format_version", adapter_format_version},
                {"plugin", adapter.plugin},
                {"version", adapter.version},
                {"options", adapter.options},
                {"base_fingerprint", base}};
  if (!adapter.base_path.empty()) identity["base_path"] = adapter.base_path;
  return identity;
}

}  // namespace wmtp
