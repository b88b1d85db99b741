"""The errors of an agent, whatever raised them, with their JSON form and their envelope."""
