// A small text plot: one series as a line, another as marks.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace wmtp {

struct CurvePoint {
  double x = 0, y = 0;
};

struct Curve {
  std::string name;
  std::vector<CurvePoint> points;  ///< must be finite
};

/// Draws the line with braille dots if `blocks`, else with '.', and the marks as 'o'. Draws nothing for fewer than two
/// points.
void print_curve(std::ostream& out, const Curve& line, const Curve& marks, bool blocks);

}  // namespace wmtp
