"""Its settings."""

from tony.schedulers.settings_schema import SchedulerSetting, SettingType

EXECUTOR = "tony.executor.container_main processes.environments:ProcessExecutorContainer"

SETTINGS = (
    SchedulerSetting(name="slots", type=SettingType.INT, default="16", meaning="Most containers of a role.", minimum=1),
    SchedulerSetting(
        name="executor", type=SettingType.TEXT, default=EXECUTOR, meaning="What runs in containers. For tests."
    ),
)
ROLE_SETTINGS = (
    SchedulerSetting(name="nice", type=SettingType.INT, default="0", meaning="Niceness of the role's processes."),
)
