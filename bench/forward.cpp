#include "bench/forward.hpp"

namespace driftbound::bench {

template class Forward<float>;
template class Forward<double>;
template class Forward<float, Eigen::ColMajor>;

}  // namespace driftbound::bench
