#include "implicit/point_reader.hpp"

#include <algorithm>

namespace driftbound::implicit {

void PointReader::refuse(std::int64_t first, std::span<const double> coordinates) const {
  const auto bad =
      std::find_if(coordinates.begin(), coordinates.end(), [&](double x) { return !(std::fabs(x) <= largest_); });
  const auto place = static_cast<std::size_t>(bad - coordinates.begin());
  const std::string where = "signs: coordinate " + std::to_string(place % dimension_) + " of point " +
                            std::to_string(first + static_cast<std::int64_t>(place / dimension_)) + " is ";
  if (std::isfinite(*bad))
    throw InvalidArgument(where + "beyond the range of the network's input; points lie within it");
  throw InvalidArgument(where + "not finite; leave such points out");
}

}  // namespace driftbound::implicit
