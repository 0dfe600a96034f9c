// Options: a plugin states each of its keys once (name, variable, help, range), and from that one line the host lists
// it, checks an experiment against it and sets it. The variable's value before the call is the default.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <wmtp/export.hpp>

namespace wmtp {

/// The visitor that the host hands to `options()`. [host only implements it; one thread]
/// Names are lower case words joined by '_'. A range is closed; NaN is always refused.
class WMTP_SDK_API Options {
 public:
  virtual ~Options();

  virtual void number(const char* name, double& value, const char* help,
                      double min = -std::numeric_limits<double>::infinity(),
                      double max = std::numeric_limits<double>::infinity()) = 0;
  virtual void integer(const char* name, int64_t& value, const char* help,
                       int64_t min = std::numeric_limits<int64_t>::min(),
                       int64_t max = std::numeric_limits<int64_t>::max()) = 0;
  virtual void flag(const char* name, bool& value, const char* help) = 0;
  /// Empty `choices` allows any text.
  virtual void text(const char* name, std::string& value, const char* help,
                    const std::vector<std::string>& choices = {}) = 0;
  /// A list of texts, each one of `choices` unless that is empty.
  virtual void texts(const char* name, std::vector<std::string>& value, const char* help,
                     const std::vector<std::string>& choices = {}) = 0;
};

}  // namespace wmtp
