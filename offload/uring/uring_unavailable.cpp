#include <strata/error.h>
#include "offload/block_io.h"

namespace strata::offload {

std::unique_ptr<BlockIo> make_uring_io(const BlockIoSetup&) {
  throw Error(ErrorCode::unsupported, "io_uring: this build was made without liburing (package liburing-dev)");
}

}  // namespace strata::offload
