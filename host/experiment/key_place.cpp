#include "experiment/key_place.hpp"

#include <algorithm>

#include "experiment/schema.hpp"

namespace wmtp {

std::string key_place(const Experiment& experiment, const std::string& path) {
  const auto stated = experiment.origins.find(path);
  const bool has_line = stated != experiment.origins.end() && stated->second.find(':') != std::string::npos;
  return has_line ? stated->second : experiment.file.string();
}

std::string with_place(const std::string& message, const Experiment& experiment) {
  const size_t end = message.find(']');
  if (!message.starts_with('[') || end == std::string::npos) return message;
  std::string path;
  if (message.starts_with("[[")) {
    path = message.substr(2, end - 2);
  } else {
    const std::string rest = message.substr(std::min(end + 2, message.size()));
    path = key_path(message.substr(1, end - 1), rest.substr(0, rest.find_first_of(" :")));
  }
  return key_place(experiment, path) + ": " + message;
}

}  // namespace wmtp
