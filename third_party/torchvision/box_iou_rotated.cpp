// SPDX-License-Identifier: Apache-2.0
// The operator torchvision::box_iou_rotated, which the pinned sources lack. A
// box is a row of five numbers: the center's x and y, the width, the height,
// and the angle in degrees. The y axis points down, so a positive angle turns
// the box counterclockwise as a viewer sees it.

#include <ATen/ATen.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <vector>

namespace {

struct Point {
  double x;
  double y;
};

struct RotatedBox {
  Point center;
  double width;
  double height;
  double radians;

  double area() const { return width * height; }
};

using Polygon = std::vector<Point>;

// Boxes that are smaller than this have no overlap with any box. Upstream has
// the same limit.
constexpr double kMinArea = 1e-14;

// Returns the corners of a box relative to `origin`. Their order makes
// `is_inside` true for the box's own center.
Polygon corners(const RotatedBox& box, const Point& origin) {
  const double cosine = std::cos(box.radians) / 2;
  const double sine = std::sin(box.radians) / 2;
  const double x = box.center.x - origin.x;
  const double y = box.center.y - origin.y;
  Polygon result;
  for (auto [across, down] : std::array<std::array<int, 2>, 4>{
           {{-1, -1}, {1, -1}, {1, 1}, {-1, 1}}}) {
    const double w = across * box.width;
    const double h = down * box.height;
    result.push_back({x + cosine * w + sine * h, y - sine * w + cosine * h});
  }
  return result;
}

double cross(const Point& from, const Point& to, const Point& point) {
  return (to.x - from.x) * (point.y - from.y) -
         (to.y - from.y) * (point.x - from.x);
}

// Returns the part of a polygon that is on the inner side of the line from
// `start` to `end`.
Polygon clip(const Polygon& polygon, const Point& start, const Point& end) {
  Polygon result;
  for (size_t i = 0; i < polygon.size(); ++i) {
    const Point& current = polygon[i];
    const Point& next = polygon[(i + 1) % polygon.size()];
    const double here = cross(start, end, current);
    const double there = cross(start, end, next);
    if (here >= 0) result.push_back(current);
    if ((here > 0 && there < 0) || (here < 0 && there > 0)) {
      const double part = here / (here - there);
      result.push_back({current.x + part * (next.x - current.x),
                        current.y + part * (next.y - current.y)});
    }
  }
  return result;
}

double area(const Polygon& polygon) {
  double twice = 0;
  for (size_t i = 1; i + 1 < polygon.size(); ++i) {
    twice += cross(polygon[0], polygon[i], polygon[i + 1]);
  }
  return twice / 2;
}

double overlap(const RotatedBox& a, const RotatedBox& b) {
  if (a.area() < kMinArea || b.area() < kMinArea) return 0;
  // Coordinates are relative to one of the boxes, so that boxes far from the
  // origin do not lose precision.
  Polygon common = corners(a, a.center);
  const Polygon other = corners(b, a.center);
  for (size_t i = 0; i < other.size(); ++i) {
    common = clip(common, other[i], other[(i + 1) % other.size()]);
  }
  const double intersection = area(common);
  return intersection / (a.area() + b.area() - intersection);
}

template <typename scalar_t>
std::vector<RotatedBox> read_boxes(const at::Tensor& boxes) {
  const at::Tensor values = boxes.contiguous();
  const scalar_t* row = values.const_data_ptr<scalar_t>();
  std::vector<RotatedBox> result(boxes.size(0));
  for (RotatedBox& box : result) {
    box = {{row[0], row[1]}, row[2], row[3], row[4] * M_PI / 180};
    row += 5;
  }
  return result;
}

void check_shape(const at::Tensor& boxes, const char* name, char rows) {
  TORCH_CHECK(boxes.dim() == 2 && boxes.size(1) == 5, name,
              " should have shape (", rows, ", 5), got ", boxes.sizes());
}

// Returns the float32 matrix of the overlaps (intersection over union) of each
// box in `boxes1` with each in `boxes2`, as upstream does for any dtype.
at::Tensor box_iou_rotated(const at::Tensor& boxes1, const at::Tensor& boxes2) {
  check_shape(boxes1, "boxes1", 'N');
  check_shape(boxes2, "boxes2", 'M');
  TORCH_CHECK(boxes1.scalar_type() == boxes2.scalar_type(),
              "boxes1 and boxes2 must have the same dtype");
  at::Tensor result = at::empty({boxes1.size(0), boxes2.size(0)},
                                boxes1.options().dtype(at::kFloat));
  AT_DISPATCH_FLOATING_TYPES(boxes1.scalar_type(), "box_iou_rotated", [&] {
    const std::vector<RotatedBox> left = read_boxes<scalar_t>(boxes1);
    const std::vector<RotatedBox> right = read_boxes<scalar_t>(boxes2);
    float* value = result.mutable_data_ptr<float>();
    for (const RotatedBox& a : left) {
      for (const RotatedBox& b : right) *value++ = overlap(a, b);
    }
  });
  return result;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(torchvision, library) {
  library.def("box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor");
}

TORCH_LIBRARY_IMPL(torchvision, CPU, library) {
  library.impl("box_iou_rotated", box_iou_rotated);
}
