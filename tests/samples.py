"""A tool, its state, and a second tool, for tests that need some."""

TOOL = {
    "name": "get_weather",
    "description": "Weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "output": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "sky": {"type": "string"}},
        "required": ["city", "sky"],
        "additionalProperties": False,
    },
    "behaviour": {"kind": "look_up", "entity": "weather", "id_field": "city", "key": "city"},
}
STATE = {"weather": {"Łódź": {"sky": "rain"}, "Oslo": {"sky": "snow"}}}
OTHER_TOOL = {"name": "noop", "parameters": {"type": "object", "properties": {}}}
