"""What a browser takes for tags and attributes, and what for text."""

from html.parser import HTMLParser


class Tags(HTMLParser):
    """Everything that a browser would not take for text."""

    def __init__(self, made):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.text = [], [], []
        self.feed(made)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *one) for one in attrs]

    def handle_data(self, data):
        self.text.append(data)

    def handle_comment(self, data):
        self.tags.append(f"comment {data}")
