strata_test(optim_test unit/optim/cast_test.cpp unit/optim/golden_optimizer_test.cpp unit/optim/loss_scaler_test.cpp
            unit/optim/lr_schedule_test.cpp unit/optim/settings_test.cpp support/golden.cpp)
strata_test(optimizer_contract contract/optimizer_cpu_test.cpp)
