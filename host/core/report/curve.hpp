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
  std::vector<CurvePoint> points;  ///< finite
};

/// Draws the line in braille dots with `blocks`, else in '.', and the marks as 'o'. Draws nothing with fewer than two
/// points.
void print_curve(std::ostream& out, const Curve& line, const Curve& marks, bool blocks);

}  // namespace wmtp
