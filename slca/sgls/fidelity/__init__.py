"""How true a simulated service is to its schemas and to itself: what ``slca simulate report`` measures."""
