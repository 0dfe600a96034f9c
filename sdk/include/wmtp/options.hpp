// Options: a plugin declares each of its keys once (name, variable, help, range). From this call the host lists the
// key, checks an experiment's value and sets the variable, whose previous value is the default.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>
#include <string>
#include <vector>
#include <wmtp/export.hpp>

namespace wmtp {

/// An option value that is within its range but that the plugin cannot accept. Throw it from `options()` or `needs()`:
/// the host calls them while checking the experiment, so the user sees the error with line and column before anything
/// starts.
class WMTP_SDK_API BadOption : public std::exception {
 public:
  /// `option`: the option's name. `at`: the byte offset of the error in a string option, or -1.
  BadOption(std::string option, std::string message, int64_t at = -1);
  ~BadOption() override;
  const char* what() const noexcept override { return message_.c_str(); }
  const std::string& option() const { return option_; }
  int64_t at() const { return at_; }

 private:
  std::string option_, message_;
  int64_t at_;
};

/// A number that changes linearly over the first optimizer steps and then stays: `keep = 0.6`, or `keep = {from = 1.0,
/// to = 0.6, steps = 100}`.
struct Scheduled {
  double from = 0, to = from;
  int64_t steps = 0;  ///< until `to`; 0: always `to`

  Scheduled(double number) : from(number), to(number) {}  // NOLINT(google-explicit-constructor): a number is one
  Scheduled(double begin, double end, int64_t count) : from(begin), to(end), steps(count) {}
  /// At an optimizer step (Step::number()): `from` at step 1, `to` after `steps` further ones.
  double at(int64_t step) const {
    const double share = step > steps || steps == 0 ? 1 : double(std::max<int64_t>(step - 1, 0)) / double(steps);
    return share >= 1 ? to : from + share * (to - from);
  }
  double smallest() const { return std::min(from, to); }
  double largest() const { return std::max(from, to); }
};

/// The visitor that the host passes to `options()`. [implemented by the host only; one thread]
/// Names are lower case words joined by '_'. A range is closed; NaN is always refused.
class WMTP_SDK_API Options {
 public:
  virtual ~Options();

  virtual void number(const char* name, double& value, const char* help,
                      double min = -std::numeric_limits<double>::infinity(),
                      double max = std::numeric_limits<double>::infinity()) = 0;
  /// A number, or one that changes over the run: read it with Scheduled::at in each call.
  virtual void scheduled(const char* name, Scheduled& value, const char* help,
                         double min = -std::numeric_limits<double>::infinity(),
                         double max = std::numeric_limits<double>::infinity()) = 0;
  virtual void integer(const char* name, int64_t& value, const char* help,
                       int64_t min = std::numeric_limits<int64_t>::min(),
                       int64_t max = std::numeric_limits<int64_t>::max()) = 0;
  virtual void flag(const char* name, bool& value, const char* help) = 0;
  /// Empty `choices` allows any text.
  virtual void text(const char* name, std::string& value, const char* help,
                    const std::vector<std::string>& choices = {}) = 0;
  /// A list of strings, each one of `choices` unless that is empty.
  virtual void texts(const char* name, std::vector<std::string>& value, const char* help,
                     const std::vector<std::string>& choices = {}) = 0;
  /// Whether the experiment sets this key, even to its default value. False while the host lists the options.
  virtual bool given(const char* name) const = 0;
  /// For a key that has no effect with the values of the others: throws BadOption with the reason if it is given.
  void refuse(const char* name, const std::string& reason) const {
    if (given(name)) throw BadOption(name, reason);
  }
};

}  // namespace wmtp
