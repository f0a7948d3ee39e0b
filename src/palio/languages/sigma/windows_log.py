"""Windows event log: the channels and event ids of Sigma's log sources, and events as flat objects.

The tables are facts about Windows and Sysmon, in the form that `logsources` reads. A category is what happened (a
process was created), a service is what recorded it (the channel Security); one category may be recorded by several.

Windows keeps an event as XML, and what turns it into JSON keeps its nesting: `{"System": {"EventID": 1, …},
"EventData": {"Image": …}}`, attributes under `#attributes` and text under `#text`. Rules name fields without the path
to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_SYSMON: Final = "Microsoft-Windows-Sysmon/Operational"

# The channels of a service; one that ends in /Operational and the like belongs to the provider named before it.
CHANNELS: Final[dict[str, tuple[str, ...]]] = {
    "application": ("Application",),
    "application-experience": (
        "Microsoft-Windows-Application-Experience/Program-Telemetry",
        "Microsoft-Windows-Application-Experience/Program-Compatibility-Assistant",
    ),
    "applocker": (
        "Microsoft-Windows-AppLocker/EXE and DLL",
        "Microsoft-Windows-AppLocker/MSI and Script",
        "Microsoft-Windows-AppLocker/Packaged app-Deployment",
        "Microsoft-Windows-AppLocker/Packaged app-Execution",
    ),
    "appmodel-runtime": ("Microsoft-Windows-AppModel-Runtime/Admin",),
    "appxdeployment-server": ("Microsoft-Windows-AppXDeploymentServer/Operational",),
    "appxpackaging-om": ("Microsoft-Windows-AppxPackaging/Operational",),
    "bitlocker": ("Microsoft-Windows-BitLocker/BitLocker Management",),
    "bits-client": ("Microsoft-Windows-Bits-Client/Operational",),
    "capi2": ("Microsoft-Windows-CAPI2/Operational",),
    "certificateservicesclient-lifecycle-system": (
        "Microsoft-Windows-CertificateServicesClient-Lifecycle-System/Operational",
    ),
    "codeintegrity-operational": ("Microsoft-Windows-CodeIntegrity/Operational",),
    "dhcp": ("Microsoft-Windows-DHCP-Server/Operational",),
    "diagnosis-scripted": ("Microsoft-Windows-Diagnosis-Scripted/Operational",),
    "dns-client": ("Microsoft-Windows-DNS Client Events/Operational", "Microsoft-Windows-DNS-Client/Operational"),
    "dns-server": ("DNS Server",),
    "dns-server-analytic": ("Microsoft-Windows-DNS-Server/Analytical",),
    "dns-server-audit": ("Microsoft-Windows-DNS-Server/Audit",),
    "driver-framework": ("Microsoft-Windows-DriverFrameworks-UserMode/Operational",),
    "firewall-as": ("Microsoft-Windows-Windows Firewall With Advanced Security/Firewall",),
    "hyper-v-worker": ("Microsoft-Windows-Hyper-V-Worker", "Microsoft-Windows-Hyper-V-Worker-Admin"),
    "iis-configuration": ("Microsoft-IIS-Configuration/Operational",),
    "kernel-event-tracing": ("Microsoft-Windows-Kernel-EventTracing", "Microsoft-Windows-Kernel-EventTracing/Admin"),
    "kernel-shimengine": (
        "Microsoft-Windows-Kernel-ShimEngine/Operational",
        "Microsoft-Windows-Kernel-ShimEngine/Diagnostic",
    ),
    "ldap": ("Microsoft-Windows-LDAP-Client/Debug",),
    "ldap_debug": ("Microsoft-Windows-LDAP-Client/Debug",),
    "lsa-server": ("Microsoft-Windows-LSA/Operational",),
    "microsoft-servicebus-client": (
        "Microsoft-ServiceBus-Client",
        "Microsoft-ServiceBus-Client/Admin",
        "Microsoft-ServiceBus-Client/Operational",
    ),
    "msexchange-management": ("MSExchange Management",),
    "ntfs": ("Microsoft-Windows-Ntfs/Operational",),
    "ntlm": ("Microsoft-Windows-NTLM/Operational",),
    "openssh": ("OpenSSH/Operational",),
    "powershell": ("Microsoft-Windows-PowerShell/Operational", "PowerShellCore/Operational"),
    "powershell-classic": ("Windows PowerShell",),
    "printservice-admin": ("Microsoft-Windows-PrintService/Admin",),
    "printservice-operational": ("Microsoft-Windows-PrintService/Operational",),
    "security": ("Security",),
    "security-mitigations": (
        "Microsoft-Windows-Security-Mitigations/KernelMode",
        "Microsoft-Windows-Security-Mitigations/Kernel Mode",
        "Microsoft-Windows-Security-Mitigations/UserMode",
        "Microsoft-Windows-Security-Mitigations/User Mode",
    ),
    "sense": ("Microsoft-Windows-SENSE/Operational",),
    "servicebus-client": ("Microsoft-ServiceBus-Client/Admin", "Microsoft-ServiceBus-Client/Operational"),
    "shell-core": ("Microsoft-Windows-Shell-Core/Operational",),
    "smbclient-connectivity": ("Microsoft-Windows-SmbClient/Connectivity",),
    "smbclient-security": ("Microsoft-Windows-SmbClient/Security",),
    "smbserver-connectivity": ("Microsoft-Windows-SMBServer/Connectivity",),
    "sysmon": (_SYSMON,),
    "system": ("System",),
    "taskscheduler": ("Microsoft-Windows-TaskScheduler/Operational",),
    "terminalservices-localsessionmanager": ("Microsoft-Windows-TerminalServices-LocalSessionManager/Operational",),
    "vhdmp": ("Microsoft-Windows-VHDMP/Operational", "Microsoft-Windows-VHDMP-Operational"),
    "windefend": ("Microsoft-Windows-Windows Defender/Operational",),
    "wmi": ("Microsoft-Windows-WMI-Activity/Operational",),
}

# Sysmon's event ids by category.
SYSMON_EVENTS: Final[dict[str, tuple[int, ...]]] = {
    "process_creation": (1,),
    "file_change": (2,),
    "network_connection": (3,),
    "sysmon_status": (4, 16),
    "process_termination": (5,),
    "driver_load": (6,),
    "image_load": (7,),
    "create_remote_thread": (8,),
    "raw_access_thread": (9,),
    "process_access": (10,),
    "file_event": (11,),
    "registry_event": (12, 13, 14),
    "registry_add": (12,),
    "registry_delete": (12,),
    "registry_set": (13,),
    "registry_rename": (14,),
    "create_stream_hash": (15,),
    "pipe_created": (17, 18),
    "wmi_event": (19, 20, 21),
    "dns_query": (22,),
    "file_delete": (23, 26),
    "clipboard_change": (24,),
    "process_tampering": (25,),
    "file_delete_detected": (26,),
    "file_block_executable": (27,),
    "file_block_shredding": (28,),
    "file_executable_detected": (29,),
    "sysmon_error": (255,),
}
# Sysmon's event 12 is for keys and values, created and deleted; its field EventType tells which.
_REGISTRY_CHANGES: Final = {"registry_add": ["CreateKey"], "registry_delete": ["DeleteKey", "DeleteValue"]}

# PowerShell's event ids by category, and the service of its new log or of its old one.
_POWERSHELL_EVENTS: Final = {
    "ps_module": (4103, "powershell"),
    "ps_script": (4104, "powershell"),
    "ps_classic_start": (400, "powershell-classic"),
    "ps_classic_provider_start": (600, "powershell-classic"),
    "ps_classic_script": (800, "powershell-classic"),
}


# Defender names its fields with blanks; rules and many shippers name them without.
_DEFENDER_FIELDS: Final = (
    "Action ID", "Action Name", "Additional Actions String", "Category ID", "Category Name", "Detection ID",
    "Detection Time", "Detection User", "Engine Version", "Error Code", "Error Description", "Execution ID",
    "Execution Name", "Feature Name", "New Value", "Old Value", "Origin ID", "Origin Name", "Post Clean Status",
    "Pre Execution Status", "Process Name", "Product Name", "Product Version", "Remediation User", "Severity ID",
    "Severity Name", "Source ID", "Source Name", "Status Code", "Status Description", "Threat ID", "Threat Name",
    "Type ID", "Type Name",
)  # fmt: skip


def default_mapping() -> dict[str, Any]:
    """The tables above as a mapping of log sources."""
    sources: dict[str, Any] = {}
    for service, channels in CHANNELS.items():
        sources[f"windows {service}"] = {
            "product": "windows",
            "service": service,
            "conditions": {"Channel": list(channels)},
        }
    names = {name.replace(" ", ""): [name.replace(" ", ""), name] for name in _DEFENDER_FIELDS}
    sources["windows windefend"]["fieldmappings"] = names
    for category, numbers in SYSMON_EVENTS.items():
        conditions: dict[str, Any] = {"EventID": list(numbers)}
        if category in _REGISTRY_CHANGES:
            conditions["EventType"] = _REGISTRY_CHANGES[category]
        sources[f"sysmon {category}"] = _category(category, conditions, "sysmon")
    for category, (number, service) in _POWERSHELL_EVENTS.items():
        sources[f"powershell {category}"] = _category(category, {"EventID": number}, service)
    # Windows records new processes too, with other names for some of the fields.
    sources["security process_creation"] = {
        **_category("process_creation", {"EventID": 4688}, "security"),
        "fieldmappings": {"Image": "NewProcessName", "ParentImage": "ParentProcessName"},
    }
    return {"logsources": sources}


def _category(category: str, conditions: dict[str, Any], service: str) -> dict[str, Any]:
    return {
        "category": category,
        "product": "windows",
        "conditions": conditions,
        "rewrite": {"product": "windows", "service": service},
    }


_ATTRIBUTES: Final = ("#attributes", "@attributes")
_TEXT: Final = "#text"
_MAX_LEVELS: Final = 20
_OF_THE_SOURCE: Final = frozenset({"Channel", "EventID", "Provider_Name"})


def flatten_windows_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an event by their names, without paths.

    Of a name that occurs twice, the event's data count, but for those by which log sources are told apart (Channel,
    EventID, Provider_Name): an event that says which log was cleared has a field Channel of its own. Data without names
    are one text, a line each.

    >>> flatten_windows_event({"System": {"EventID": 1, "Provider": {"#attributes": {"Name": "Sysmon"}}},
    ...                        "EventData": {"Image": "C:\\\\cmd.exe"}})
    {'Image': 'C:\\\\cmd.exe', 'EventID': 1, 'Provider_Name': 'Sysmon'}
    """
    event = event.get("Event", event)
    # `setdefault`: of a name that occurs twice, the first counts.
    fields: dict[str, Any] = {}
    system = dict(_system(event.get("System")))
    for part in ("EventData", "UserData"):
        for name, value in _data(event.get(part), 0):
            fields.setdefault(name, system[name] if name in _OF_THE_SOURCE and name in system else value)
    for name, value in system.items():
        fields.setdefault(name, value)
    for name, value in event.items():
        if name not in ("EventData", "UserData", "System", *_ATTRIBUTES):
            fields.setdefault(name, value)
    return fields


def _data(value: Any, level: int) -> Iterator[tuple[str, Any]]:
    """The named data of an event, however deep they lie."""
    if level > _MAX_LEVELS:
        return
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name in _ATTRIBUTES:
                continue
            if name == "Data":
                yield from _named(inner)
            elif isinstance(inner, Mapping) and _TEXT in inner:
                yield name, inner[_TEXT]
            elif isinstance(inner, Mapping):
                yield from _data(inner, level + 1)
            else:
                yield name, inner


def _named(data: Any) -> Iterator[tuple[str, Any]]:
    """`Data` elements, each with its name as an attribute; those without one are the field Data."""
    unnamed = []
    for each in data if isinstance(data, list) else [data]:
        name = _attribute(each, "Name")
        text = each.get(_TEXT) if isinstance(each, Mapping) else each
        if name is None:
            unnamed.append(text)
        else:
            yield name, text
    if unnamed:
        # An array would be compared element by element, and `not` would hold for the elements beside the one excluded.
        yield "Data", "\n".join(str(each) for each in unnamed if each is not None) if len(unnamed) > 1 else unnamed[0]


def _system(system: Any) -> Iterator[tuple[str, Any]]:
    """The fields that Windows itself adds to an event; an attribute is named after its element, as in Provider_Name."""
    if not isinstance(system, Mapping):
        return
    for name, value in system.items():
        if not isinstance(value, Mapping):
            yield name, value
            continue
        if _TEXT in value:
            yield name, value[_TEXT]
        for group in _ATTRIBUTES:
            attributes = value.get(group)
            if isinstance(attributes, Mapping):
                yield from ((f"{name}_{attribute}", inner) for attribute, inner in attributes.items())


def _attribute(element: Any, name: str) -> Any:
    if isinstance(element, Mapping):
        for group in _ATTRIBUTES:
            attributes = element.get(group)
            if isinstance(attributes, Mapping) and name in attributes:
                return attributes[name]
        return element.get(f"@{name}")
    return None
