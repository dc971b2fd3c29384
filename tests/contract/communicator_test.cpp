#include "contract/communicator_contract.h"

namespace strata::test {

INSTANTIATE_TEST_SUITE_P(Solo, CommunicatorContract, testing::Values(WorldCase{WorldKind::solo, 1}), name_of);

INSTANTIATE_TEST_SUITE_P(Threads, CommunicatorContract,
                         testing::Values(WorldCase{WorldKind::threads, 1}, WorldCase{WorldKind::threads, 2},
                                         WorldCase{WorldKind::threads, 3}, WorldCase{WorldKind::threads, 4},
                                         WorldCase{WorldKind::threads, 7}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Processes, CommunicatorContract,
                         testing::Values(WorldCase{WorldKind::processes, 1}, WorldCase{WorldKind::processes, 2},
                                         WorldCase{WorldKind::processes, 3}, WorldCase{WorldKind::processes, 4},
                                         WorldCase{WorldKind::processes, 7}),
                         name_of);

}  // namespace strata::test
