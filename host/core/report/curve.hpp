// A small plot in text: one series as a line, a second one as marks over it.
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

/// With `blocks` the line is drawn in braille dots, else in '.'; the marks are 'o'. Nothing without two points.
void print_curve(std::ostream& out, const Curve& line, const Curve& marks, bool blocks);

}  // namespace wmtp
