"""Where does an event go next?"""
