"""Amazon Bedrock's Converse: its adapter and its rules."""
