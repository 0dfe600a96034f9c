// bad_schema: an option's default is outside its range.
#include <wmtp/plugin.hpp>

class BadSchema : public wmtp::Weighting {
 public:
  void options(wmtp::Options& o) override { o.number("keep", keep_, "fraction of tokens to keep", 0, 1); }
  wmtp::Needs needs() const override { return {}; }
  wmtp::Weights weigh(wmtp::BatchStep&) override { return wmtp::Weights::uniform(); }

 private:
  double keep_ = 60;
};

WMTP_PIPELINE(BadSchema, "bad_schema", "1.0", "its default lies outside its own range")
