"""Its settings."""

from tony.schedulers.settings_schema import SchedulerSetting, SettingType

EXECUTOR = "tony.executor.container_main processes.environments:ProcessExecutorContainer"

SETTINGS = (
    SchedulerSetting("slots", SettingType.INT, "16", "Most containers of a role.", minimum=1),
    SchedulerSetting("executor", SettingType.TEXT, EXECUTOR, "What runs in containers. For tests."),
)
ROLE_SETTINGS = (SchedulerSetting("nice", SettingType.INT, "0", "Niceness of the role's processes."),)
